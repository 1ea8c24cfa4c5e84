//! Manifests in, changes and complaints out.

use std::fs;

use proptest::prelude::*;
use svc_planner::object::Change;

use super::{Input, Source};

/// Names of what is read from `text`, and the complaints about it.
pub(super) fn read(name: &str, text: &str) -> (Vec<String>, Vec<String>) {
    let mut source = Source::new("n1");
    let mut changes = Vec::new();
    source.load_text(name, text.to_owned(), |change| {
        changes.push(describe(&change))
    });
    let prefix = format!("{name}: ");
    let problems = source.take_problems();
    let problems = problems
        .iter()
        .map(|problem| problem.to_string().replace(&prefix, ""));
    (changes, problems.collect())
}

fn describe(change: &Change) -> String {
    match change {
        Change::Service(service) => format!("+{} {}", service.name.name, service.cluster_ips[0]),
        Change::ServiceGone(name) => format!("-{}", name.name),
        Change::EndpointSlice(slice) => {
            let endpoints = slice.endpoints.iter().map(|it| it.address.to_string());
            format!(
                "+{} {}",
                slice.name.name,
                endpoints.collect::<Vec<_>>().join(" ")
            )
        }
        Change::EndpointSliceGone(name) => format!("-{}", name.name),
        Change::Node(node) => format!("+node {}", node.name),
        Change::ServiceCidr { name, cidrs } => format!("+cidr {name} {}", cidrs[0]),
        other => format!("{other:?}"),
    }
}

const SERVICE: &str = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"10.0.0.1"}}"#;

#[test]
fn kubectl_puts_the_kind_behind_the_endpoints() {
    let (changes, problems) = read(
        "l.json",
        r#"{
    "apiVersion": "v1",
    "items": [
        {
            "addressType": "IPv4",
            "apiVersion": "discovery.k8s.io/v1",
            "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}],
            "kind": "EndpointSlice",
            "metadata": {"labels": {"kubernetes.io/service-name": "a"}, "name": "a-1"},
            "ports": [{"port": 80}]
        },
        {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "a", "managedFields": [{"a": "}"}]},
            "spec": {"clusterIP": "10.0.0.1", "selector": {"x": "y"}}
        },
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
         "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": "whatever", "endpoints": 5}
    ],
    "kind": "List",
    "metadata": {"resourceVersion": ""}
}"#,
    );
    assert_eq!(problems, Vec::<String>::new());
    let expected = [
        "+a-1 10.1.0.1",
        "+a 10.0.0.1",
        "+node n1",
        "+cidr kubernetes 10.0.0.0/16",
    ];
    assert_eq!(changes, expected);
}

#[test]
fn fields_may_come_in_any_order() {
    let (changes, problems) = read(
        "a.json",
        r#"{"spec":{"clusterIP":"10.0.0.1"},"metadata":{"name":"a"},"kind":"Service","apiVersion":"v1"}"#,
    );
    assert_eq!(
        (changes.as_slice(), problems.len()),
        (["+a 10.0.0.1".to_owned()].as_slice(), 0)
    );
}

#[test]
fn items_of_typed_lists_have_no_kind() {
    let list = r#"{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"a"},"spec":{"clusterIP":"10.0.0.1"}}]}"#;
    let (changes, problems) = read("a.json", list);
    assert_eq!(changes, ["+a 10.0.0.1"]);
    assert_eq!(problems, Vec::<String>::new());
    let yaml = "kind: ServiceList\napiVersion: v1\nitems:\n- metadata: {name: a}\n  spec: {clusterIP: 10.0.0.1}\n";
    assert_eq!(read("a.yaml", yaml).0, ["+a 10.0.0.1"]);
}

/// As `jq -S` sorts them: the items come before the kind that tells what they are.
#[test]
fn typed_lists_may_say_their_kind_last() {
    let item = |name: &str| {
        format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"10.0.0.1"}}}}"#)
    };
    let wrong = r#"{"metadata":{"name":"c","labels":5},"spec":{}}"#;
    let foreign = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":5}"#;
    let own = SERVICE.replace("\"a\"", "\"own\"");
    let items = [&item("a"), &own, wrong, foreign, &item("b")].join(",\n");
    for (before, after) in [
        (
            r#""apiVersion":"v1","#,
            r#""kind":"ServiceList","metadata":{"resourceVersion":"1"}"#,
        ),
        (
            r#""kind":"ServiceList","#,
            r#""metadata":{},"apiVersion":"v1""#,
        ),
        ("", r#""kind":"ServiceList","apiVersion":"v1""#),
    ] {
        let (changes, problems) = read(
            "l.json",
            &format!("{{{before}\"items\":[{items}],{after}}}"),
        );
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(changes.contains(&"+b 10.0.0.1".to_owned()), "{changes:?}");
        let [problem] = problems.as_slice() else {
            panic!("{problems:?}");
        };
        let place = "document 1: items[2]: error: Service c: metadata.labels: ";
        assert!(problem.starts_with(place), "{problem}");
    }

    // A list in a list, each with its own kind.
    let inner = format!(
        r#"{{"apiVersion":"v1","items":[{}],"kind":"ServiceList"}}"#,
        item("in")
    );
    let list = format!(
        r#"{{"apiVersion":"v1","items":[{inner},{}],"kind":"ServiceList"}}"#,
        item("out")
    );
    assert_eq!(
        read("l.json", &list),
        (
            vec!["+in 10.0.0.1".to_owned(), "+out 10.0.0.1".to_owned()],
            vec![]
        )
    );

    // A list of another kind, or one that never says.
    for (last, complaints) in [(r#","kind":"PodList""#, 1), (r#","kind":5"#, 1), ("", 1)] {
        let list = format!(r#"{{"apiVersion":"v1","items":[{}]{last}}}"#, item("a"));
        let (changes, problems) = read("l.json", &list);
        assert_eq!(
            (changes.len(), problems.len()),
            (0, complaints),
            "{problems:?}"
        );
    }
    let yaml = "apiVersion: v1\nitems:\n- metadata: {name: a}\n  spec: {clusterIP: 10.0.0.1}\nkind: ServiceList\n";
    assert_eq!(read("a.yaml", yaml).0, ["+a 10.0.0.1"]);
}

#[test]
fn documents_follow_one_another() {
    let two = format!("{SERVICE}\n{}", SERVICE.replace("\"a\"", "\"b\""));
    assert_eq!(read("a.json", &two).0, ["+a 10.0.0.1", "+b 10.0.0.1"]);
    let yaml = "# comment\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: 10.0.0.1}\n\
                --- # next\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec:\n  clusterIP: \"fd00::1\"\n...\n---\n";
    let (changes, problems) = read("a.yaml", yaml);
    assert_eq!(changes, ["+a 10.0.0.1", "+b fd00::1"]);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(read("a.yaml", "").0, Vec::<String>::new());
}

#[test]
fn json_and_yaml_are_told_apart() {
    let second = SERVICE.replace("\"a\"", "\"b\"");
    let marked = format!("---\n{SERVICE}\n---\n{second}\n");
    let both = ["+a 10.0.0.1", "+b 10.0.0.1"];
    for text in [marked.trim_start_matches("---\n"), &marked] {
        let (changes, problems) = read("a", text);
        assert_eq!(changes, both, "{text}");
        assert_eq!(problems, Vec::<String>::new(), "{text}");
    }
    let flow = "\n{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: 10.0.0.1}}\n---\n[";
    let (changes, problems) = read("a", flow);
    assert_eq!(changes, ["+a 10.0.0.1"]);
    let named = problems[0].starts_with("document 2: error: line 4, column ");
    assert!(problems.len() == 1 && named, "{problems:?}");
}

#[test]
fn a_yaml_error_names_one_place() {
    let text = format!("{SERVICE}\n---\nkind: Service\nkind: Service\n");
    let (changes, problems) = read("a", &format!("# YAML\n{text}"));
    assert_eq!(changes, ["+a 10.0.0.1"]);
    assert_eq!(
        problems,
        [
            "document 2: error: line 5, column 1: duplicate mapping key: kind; \
             the rest of the document was not read"
        ]
    );
}

#[test]
fn an_object_is_named_whatever_its_fields_are() {
    let odd = SERVICE.replace("\"a\"", "17");
    let (changes, problems) = read("a", &odd);
    assert_eq!(changes, Vec::<String>::new());
    assert_eq!(
        problems,
        [
            "document 1: error: Service 17: metadata.name: invalid type: integer `17`, \
             expected a string"
        ]
    );
    let deep =
        r#"{"kind":"List","items":[{"kind":"List","items":[{"kind":"List","items":[{}]}]}]}"#;
    for (name, text) in [("json", deep.to_owned()), ("yaml", format!("#\n{deep}"))] {
        let (_, problems) = read(name, &text);
        let named = problems[0].contains("items[0]: error: ");
        assert!(problems.len() == 1 && named, "{problems:?}");
        assert!(
            problems[0].ends_with("lists in lists in lists are not read"),
            "{problems:?}"
        );
    }
}

#[test]
fn a_bad_item_costs_itself_and_is_named() {
    let item = |name: &str, spec: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
        )
    };
    let list = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{},\n{},\n{},\n{},\n{},\n17]}}",
        item("a", r#"{"clusterIP":"10.0.0.1"}"#),
        item(
            "b",
            r#"{"clusterIP":"10.0.0.2","ports":[{"port":80},{"port":"http"}]}"#
        ),
        item("c", r#"{"clusterIP" "10.0.0.3"}"#),
        r#"{"metadata":{"name":"d"}}"#,
        item("e", r#"{"clusterIP":"10.0.0.5"}"#),
    );
    let (changes, problems) = read("l.json", &list);
    assert_eq!(changes, ["+a 10.0.0.1", "+e 10.0.0.5"]);
    let expected = [
        "document 1: items[1]: error: Service b: spec.ports[1].port: invalid type: string \"http\", expected an integer",
        "document 1: items[2]: error: line 4, column 81: expected `:`",
        "document 1: items[3]: error: kind or apiVersion is missing",
        "document 1: items[5]: error: object: .: invalid type: integer `17`, expected an object",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn what_is_no_object_costs_itself() {
    let service = |name: &str, last: u8| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"10.0.0.{last}"}}}}"#
        )
    };
    let (a, b) = (service("a", 1), service("b", 2));
    for other in ["null", "3", "\"{\"", "[]", "oops", "[{}]"] {
        let list = format!(
            r#"{{"apiVersion":"v1","kind":"List","items":[{a},{other},{b}],"metadata":{{}}}}"#
        );
        for (name, text) in [("l.json", list.clone()), ("l.yaml", format!("#\n{list}"))] {
            let (changes, problems) = read(name, &text);
            assert_eq!(changes, ["+a 10.0.0.1", "+b 10.0.0.2"], "{other}");
            let named = problems[0].starts_with("document 1: items[1]: error: ");
            assert!(problems.len() == 1 && named, "{problems:?}");
        }
    }
}

#[test]
fn other_encodings() {
    fn read(text: &[u8]) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, text).unwrap();
        let mut source = Source::new("n1");
        let mut changes = Vec::new();
        source.load(&Input::Path(file), |change| changes.push(describe(&change)));
        let problems = source.take_problems();
        let problems = problems.iter().map(|problem| {
            let text = problem.to_string();
            text.rsplit_once("a.yaml: ").unwrap().1.to_owned()
        });
        (changes, problems.collect())
    }
    let yaml = "apiVersion: v1\nkind: Service\nmetadata: {name: ä}\nspec: {clusterIP: 10.0.0.1}\n";
    let json = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"ä"},"spec":{"clusterIP":"10.0.0.1"}}"#;
    for text in [yaml, json] {
        let units = || core::iter::once(0xfeff).chain(text.encode_utf16());
        let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
        let marked = format!("\u{feff}{text}").into_bytes();
        for bytes in [little, big, marked] {
            assert_eq!(read(&bytes), (vec!["+ä 10.0.0.1".to_owned()], vec![]));
        }
    }
    // In Latin-1, between two that can be read.
    let other = yaml.replace('ä', "b");
    let latin = [
        yaml.as_bytes(),
        b"---\n# 1\nkind: \xe4\n---\n",
        other.as_bytes(),
    ];
    let (changes, problems) = read(&latin.concat());
    assert_eq!(changes, ["+ä 10.0.0.1", "+b 10.0.0.1"]);
    let expected =
        "document 2: error: line 7, column 1: not UTF-8; the rest of the document was not read";
    assert_eq!(problems, [expected]);
}

#[test]
fn a_bad_yaml_document_costs_itself() {
    let yaml = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: {}}\n---\n]\n---\n\
                apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: b}\n  spec: {clusterIP: 5}\n\
                - apiVersion: v1\n  kind: Service\n  metadata: {name: c}\n  spec: {clusterIP: 10.0.0.3}\n";
    let (changes, problems) = read("a.yaml", yaml);
    assert_eq!(changes, ["+c 10.0.0.3"]);
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(problems[0].starts_with("document 1: error: Service a: spec.ports: invalid type: map"));
    assert!(
        problems[1].starts_with("document 2: error: line 6, column 1: "),
        "{problems:#?}"
    );
    assert!(problems[2].starts_with("document 3: items[0]: error: Service b: spec.clusterIP: "));
}

#[test]
fn the_last_definition_counts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |address: &str| SERVICE.replace("10.0.0.1", address);
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("a.json", at("10.0.0.1"));
    write("b.json", at("10.0.0.2") + &at("10.0.0.3"));
    let mut source = Source::new("n1");
    let mut last = None;
    source.load(&Input::from(folder.path()), |change| {
        last = Some(describe(&change))
    });
    assert_eq!(last.as_deref(), Some("+a 10.0.0.3"));
    let problems = source.take_problems();
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].ends_with("a.json; this one is used"), "{lines:#?}");
    assert!(
        lines[1].ends_with("also in this file; the last is used"),
        "{lines:#?}"
    );

    // The earlier file changes: it still does not count.
    write("a.json", at("10.0.0.4"));
    let mut changes = Vec::new();
    source.refresh(folder.path(), None, |change| {
        changes.push(describe(&change))
    });
    assert_eq!(changes, Vec::<String>::new());
    // The later one goes: now it does.
    fs::remove_file(folder.path().join("b.json")).unwrap();
    source.refresh(folder.path(), None, |change| {
        changes.push(describe(&change))
    });
    assert_eq!(changes, ["+a 10.0.0.4"]);
    fs::remove_file(folder.path().join("a.json")).unwrap();
    source.refresh(folder.path(), None, |change| {
        changes.push(describe(&change))
    });
    assert_eq!(changes, ["+a 10.0.0.4", "-a"]);
}

#[test]
fn a_file_that_breaks_keeps_serving() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    fs::write(
        &path,
        format!("{SERVICE}{}", SERVICE.replace("\"a\"", "\"b\"")),
    )
    .unwrap();
    let mut source = Source::new("n1");
    source.load(&Input::from(folder.path()), |_| {});
    let mut changes = Vec::new();
    fs::write(&path, format!("{SERVICE}{{\"kind\"")).unwrap();
    source.refresh(folder.path(), None, |change| {
        changes.push(describe(&change))
    });
    assert_eq!(changes, ["+a 10.0.0.1"]);
    fs::write(&path, SERVICE).unwrap();
    source.refresh(folder.path(), None, |change| {
        changes.push(describe(&change))
    });
    assert_eq!(changes, ["+a 10.0.0.1", "+a 10.0.0.1", "-b"]);
}

proptest! {
    #[test]
    fn any_text_is_handled(text in "[\\[\\]{}\",:\\\\ a1\n-]{0,80}") {
        read("a.json", &text);
        read("a.yaml", &text);
    }

    #[test]
    fn a_text_that_ends_early_serves_what_was_before(cut in 0_usize..200) {
        let text = format!(r#"{{"kind":"List","apiVersion":"v1","items":[{SERVICE},{SERVICE}]}}"#);
        let cut = cut.min(text.len());
        let (changes, problems) = read("a.json", &text[..cut]);
        let whole = 42 + SERVICE.len();
        prop_assert_eq!(changes.len(), usize::from(cut >= whole) + usize::from(cut > whole + SERVICE.len()));
        prop_assert_eq!(problems.iter().filter(|it| it.contains("error")).count(), usize::from(cut > 0 && cut < text.len()));
    }
}
