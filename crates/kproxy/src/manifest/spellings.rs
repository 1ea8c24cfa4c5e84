//! Manifests as they are seldom written. What is expected is what `kubectl` and the API server 1.37.2 make of
//! them (apimachinery's `NewYAMLOrJSONDecoder`, then a typed decoder).

use super::Source;
use super::tests::read;

use svc_planner::object::Change;

/// The port of a Service whose `port` is written so; else the complaint.
fn port(written: &str) -> Result<u16, String> {
    let text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: a}}\n\
         spec: {{clusterIP: 10.0.0.1, ports: [{{port: {written}, targetPort: http}}]}}\n"
    );
    let mut port = None;
    let mut source = Source::new("n1");
    source.load_text("a.yaml", text, |change| {
        if let Change::Service(service) = change {
            port = service.ports.first().map(|it| it.port);
        }
    });
    let problems = source.take_problems();
    port.ok_or_else(|| problems[0].to_string())
}

fn service(name: &str, spec: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

#[test]
fn numbers() {
    for written in [
        "80",
        "0x50",
        "0120",
        "0o120",
        "0b1010000",
        "8_0",
        "+80",
        "80.0",
        "8e1",
        "080",
        "!!int \"80\"",
        "!!float 80",
    ] {
        assert_eq!(port(written), Ok(80), "{written}");
    }
    for written in [
        "\"80\"",
        "80.5",
        "1:20",
        "yes",
        "[80]",
        "-80",
        "4294967376",
        "70000.0",
    ] {
        let complaint = port(written).unwrap_err();
        let place = "spec.ports[0].port: ";
        assert!(complaint.contains(place), "{written}: {complaint}");
    }
    // JSON is no YAML: the server takes no fractions there, be they nothing.
    for written in ["80.0", "8e1", "\"80\""] {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a"}},"spec":{{"clusterIP":"10.0.0.1","ports":[{{"port":{written}}}]}}}}"#
        );
        let (changes, problems) = read("a.json", &json);
        assert_eq!((changes.len(), problems.len()), (0, 1), "{problems:?}");
    }
}

#[test]
fn names_that_look_like_something_else() {
    for (written, name) in [
        ("\"17\"", "17"),
        ("!!str 17", "17"),
        ("2001-12-14", "2001-12-14"),
        ("1:30", "1:30"),
        ("'yes'", "yes"),
        ("!!binary YQ==", "a"),
        ("!foo a", "a"),
        (">-\n  a", "a"),
    ] {
        let text = format!(
            "apiVersion: v1\nkind: Service\nspec: {{clusterIP: 10.0.0.1}}\nmetadata:\n name: {written}\n"
        );
        let read = read("a.yaml", &text);
        assert_eq!(
            read,
            (vec![format!("+{name} 10.0.0.1")], vec![]),
            "{written}"
        );
    }
    for written in ["17", "yes", "on", "n", "0o17", "1e3", "1_0", "~", ".inf"] {
        let (changes, problems) = read("a.yaml", &service(written, "{clusterIP: 10.0.0.1}"));
        assert_eq!(
            (changes.len(), problems.len()),
            (0, 1),
            "{written}: {problems:?}"
        );
    }
}

#[test]
fn anchors_and_merge_keys() {
    let list = "apiVersion: v1\nkind: List\nitems:\n\
                - apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n  spec: &s {clusterIP: 10.0.0.1}\n\
                - apiVersion: v1\n  kind: Service\n  metadata: {name: b}\n  spec: *s\n\
                - apiVersion: v1\n  kind: Service\n  metadata: {name: c}\n  spec: {<<: *s, clusterIP: 10.0.0.3}\n";
    let expected = ["+a 10.0.0.1", "+b 10.0.0.1", "+c 10.0.0.3"];
    assert_eq!(
        read("l.yaml", list),
        (expected.map(str::to_owned).to_vec(), vec![])
    );
    let shared = "x: &s {clusterIP: 10.0.0.1}\ny: &t {clusterIP: 10.0.0.2, ports: [{port: 81}]}\n";
    for spec in ["{<<: *s}", "{<<: [*s, *t]}"] {
        let text = format!("{shared}{}", service("a", spec));
        assert_eq!(
            read("a.yaml", &text),
            (vec!["+a 10.0.0.1".to_owned()], vec![])
        );
    }
    // An anchor counts in its document alone; what is wrong with one costs no other.
    let last = service("z", "{clusterIP: 10.0.0.9}");
    for spec in ["*s", "{<<: foo}", "&r {x: *r}"] {
        let text = format!("{shared}---\n{}---\n{last}", service("a", spec));
        let (changes, problems) = read("a.yaml", &text);
        assert_eq!(changes, ["+z 10.0.0.9"], "{spec}");
        let place = "document 2: error: line 7, ";
        let mut others = problems.iter().filter(|it| !it.starts_with("document 1: "));
        assert!(
            others.next().is_some_and(|it| it.starts_with(place)),
            "{problems:?}"
        );
        assert_eq!(others.next(), None);
    }
}

#[test]
fn documents() {
    let [a, b] = ["a", "b"].map(|name| service(name, "{clusterIP: 10.0.0.1}"));
    let json = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"10.0.0.1"}}}}"#
        )
    };
    let both = (
        vec!["+a 10.0.0.1".to_owned(), "+b 10.0.0.1".to_owned()],
        vec![],
    );
    for text in [
        format!("%YAML 1.1\n---\n{a}...\n%YAML 1.1\n---\n{b}"),
        format!("\u{feff}{a}---\n\u{feff}{b}"),
        format!("{a}---\n{b}").replace('\n', "\r\n"),
        format!("{a}...\n---\n{b}").replace('\n', "\r\n"),
        format!("null\n---\n~\n---\n{a}---\n---\n# nothing\n---\n{b}---\n"),
        format!("{a}---\n{}\n", json("b")),
        format!("{}\n---\n{b}", json("a")),
        format!("---\n{}\n--- # then\n{}\n", json("a"), json("b")),
        format!("{}{}", json("a"), json("b")),
    ] {
        assert_eq!(read("a", &text), both, "{text:?}");
    }
    // Lines and documents are counted through.
    let text = format!("{}\n{}\n---\n{b}---\n]\n", json("a"), json("c"));
    let (changes, problems) = read("a", &text);
    assert_eq!(changes.len(), 3);
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert!(
        problem.starts_with("document 4: error: line 9, "),
        "{problem}"
    );
    // And so it is where nothing follows, or no mark.
    for behind in ["\n---\n", "\n---"] {
        assert_eq!(
            read("a", &format!("{}{behind}", json("a"))).0,
            ["+a 10.0.0.1"]
        );
    }
    for behind in ["\n--\n", "\nfoo: bar\n"] {
        let (changes, problems) = read("a", &format!("{}{behind}", json("a")));
        assert_eq!((changes.len(), problems.len()), (1, 1), "{problems:?}");
    }
}

/// Those of fields that nobody here asks for are not read, those of others as they must be.
#[test]
fn quantities_times_and_truths() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, creationTimestamp: null}\n\
                status: {capacity: {memory: 1.5Ki, cpu: 2}, addresses: []}\n";
    assert_eq!(read("a.yaml", node), (vec!["+node n1".to_owned()], vec![]));
    let slice = |ready: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: s, labels: {{kubernetes.io/service-name: a}}}}\naddressType: IPv4\n\
             ports: [{{port: 0x50}}]\nendpoints: [{{addresses: [10.1.0.1], conditions: {{ready: {ready}}}}}]\n"
        )
    };
    for ready in ["yes", "on", "True", "~"] {
        assert_eq!(
            read("a.yaml", &slice(ready)),
            (vec!["+s 10.1.0.1".to_owned()], vec![])
        );
    }
    for ready in ["\"true\"", "1"] {
        let (changes, problems) = read("a.yaml", &slice(ready));
        assert_eq!((changes.len(), problems.len()), (0, 1));
        assert!(problems[0].contains("EndpointSlice s: endpoints[0].conditions.ready: "));
    }
}
