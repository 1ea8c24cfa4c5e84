//! From the text of a file to its fields. YAML is read as kube-proxy's library reads it (YAML 1.1 words for
//! true and false, the first document alone); fields that it does not know, and those that are there
//! twice, are named and passed over.

use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};
use thiserror::Error;

use super::{API_VERSION, Field, KIND, Kind, KubeProxyConfiguration, fields};
use crate::yaml::whole_number;

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Its fields, without defaults.
    pub config: KubeProxyConfiguration,
    /// What it says, as JSON: known fields that are there.
    pub said: Value,
    /// What a strict reader objects to.
    pub strictness: Option<Strictness>,
}

/// What a strict reader objects to. The last of several fields of a name counts, unknown ones do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strictness {
    /// Lines, and names that were there before.
    pub duplicates: Vec<(u64, String)>,
    /// Paths, in order.
    pub unknown: Vec<String>,
}

impl fmt::Display for Strictness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duplicates = self.duplicates.iter();
        let duplicates =
            duplicates.map(|(line, name)| format!("line {line}: key {name:?} already set in map"));
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|path| format!("unknown field {path:?}"));
        let all: Vec<_> = duplicates.chain(unknown).collect();
        write!(f, "strict decoding error: {}", all.join(", "))
    }
}

/// Why a file cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Neither YAML nor JSON.
    #[error("line {line}: {message}")]
    Syntax {
        /// Where.
        line: u64,
        /// What.
        message: String,
    },
    /// No object.
    #[error("couldn't get version/kind: the file holds no object")]
    NoObject,
    /// It does not say what it is.
    #[error("Object '{0}' is missing")]
    Missing(&'static str),
    /// It is something else.
    #[error("no kind {kind:?} is registered for version {version:?}")]
    OtherKind {
        /// Its `kind`.
        kind: String,
        /// Its `apiVersion`.
        version: String,
    },
    /// A field holds what it cannot hold.
    #[error("{path}: {message}")]
    Field {
        /// Which.
        path: String,
        /// Why not.
        message: String,
    },
}

/// Reads a file's text.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(text: &str) -> Result<Decoded, DecodeError> {
    let tree = parse(text)?;
    let Tree::Object(entries) = tree else {
        return Err(DecodeError::NoObject);
    };
    identify(&entries)?;
    let mut strictness = Strictness::default();
    let known = fields();
    let said = object(entries, "", &known, &mut strictness)?;
    strictness.unknown.sort_unstable();
    let config = serde_path_to_error::deserialize(&said).map_err(|error| DecodeError::Field {
        path: error.path().to_string(),
        message: error.inner().to_string(),
    })?;
    let is_strict = strictness == Strictness::default();
    Ok(Decoded {
        config,
        said,
        strictness: (!is_strict).then_some(strictness),
    })
}

fn parse(text: &str) -> Result<Tree, DecodeError> {
    // Go's `unicode.IsSpace`, and so no byte order mark.
    let is_json = text.trim_start().starts_with('{');
    if is_json {
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| {
            syntax(u64::try_from(error.line()).unwrap_or(1), &error.to_string())
        })?;
    }
    if let Some(line) = incompatible_line(text) {
        return Err(syntax(line, "found incompatible YAML document"));
    }
    let mut options = serde_saphyr::Options::default();
    options.with_snippet = false;
    options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
    options.legacy_octal_numbers = true;
    let first = first_document(text);
    let tree = serde_saphyr::from_str_with_options(first, options).map_err(|error| {
        let line = error.location().map_or(1, |place| place.line());
        syntax(line, &error.without_snippet().to_string())
    })?;
    Ok(if is_json {
        tree
    } else {
        Tree::with_whole_numbers(tree)
    })
}

/// An error of a parser, whose message may name the place, too.
fn syntax(line: u64, message: &str) -> DecodeError {
    let end = message.find(" at line ").unwrap_or(message.len());
    DecodeError::Syntax {
        line,
        message: message.get(..end).unwrap_or_default().to_owned(),
    }
}

/// The line that says that the first document is of another YAML than 1.1.
fn incompatible_line(text: &str) -> Option<u64> {
    let head = text.lines().take_while(|line| !line.starts_with("---"));
    head.zip(1..).find_map(|(line, number)| {
        let version = line.strip_prefix("%YAML")?.split_whitespace().next()?;
        (version != "1.1").then_some(number)
    })
}

/// The text up to the second document, with as many lines before it as the file has.
fn first_document(text: &str) -> &str {
    let mut offset = 0;
    let mut begun = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        let mark = bare == "---" || line.starts_with("--- ");
        if begun && (mark || bare == "...") {
            return text.get(..offset).unwrap_or(text);
        }
        begun |= mark || !(bare.is_empty() || bare.starts_with(['#', '%']));
        offset += line.len();
    }
    text
}

/// Is it a configuration of kube-proxy?
fn identify(entries: &[(Key, Tree)]) -> Result<(), DecodeError> {
    // As Go's decoder: in any case.
    let word = |name: &'static str| {
        let mut entries = entries.iter().rev();
        match entries.find(|(key, _)| key.name.eq_ignore_ascii_case(name)) {
            Some((_, Tree::Leaf(Value::String(word)))) if !word.is_empty() => Ok(word.clone()),
            _ => Err(DecodeError::Missing(name)),
        }
    };
    let kind = word("kind").map_err(|_| DecodeError::Missing("Kind"))?;
    let version = word("apiVersion")?;
    if kind == KIND && version == API_VERSION {
        Ok(())
    } else {
        Err(DecodeError::OtherKind { kind, version })
    }
}

/// Lists of objects.
const LISTS: [&str; 1] = ["logging.vmodule"];

/// The known fields of an object at `path`; the others are noted.
fn object(
    entries: Vec<(Key, Tree)>,
    path: &str,
    known: &[&Field],
    strictness: &mut Strictness,
) -> Result<Value, DecodeError> {
    let mut fields = Map::new();
    for (key, tree) in entries {
        let here = if path.is_empty() {
            key.name.clone()
        } else {
            format!("{path}.{}", key.name)
        };
        if fields.contains_key(&key.name) {
            strictness.duplicates.push((key.line, key.name.clone()));
        }
        let field = known.iter().find(|field| field.path == here);
        let is_section = || known.iter().any(|field| is_below(field.path, &here));
        let value = match (field, tree) {
            _ if path.is_empty() && matches!(&*key.name, "apiVersion" | "kind") => continue,
            // Go's decoder takes it for nothing said, but where a duration must be.
            (Some(field), Tree::Leaf(Value::Null)) if field.kind != Kind::Duration => continue,
            (Some(field), tree) => {
                let mut value = whole(tree, strictness);
                let nothing = |value: &&mut Value| value.is_null();
                match (field.kind, &mut value) {
                    (Kind::Switches, Value::Object(switches)) => {
                        let unsaid = switches.values_mut().filter(nothing);
                        unsaid.for_each(|value| *value = false.into());
                    }
                    (Kind::Texts, Value::Array(texts)) => {
                        let unsaid = texts.iter_mut().filter(nothing);
                        unsaid.for_each(|value| *value = "".into());
                    }
                    _ => {}
                }
                value
            }
            (None, tree) if !is_section() => {
                drop(tree);
                strictness.unknown.push(here);
                continue;
            }
            (None, Tree::Leaf(Value::Null)) => continue,
            (None, Tree::Object(entries)) => object(entries, &here, known, strictness)?,
            (None, Tree::List(items)) if LISTS.contains(&here.as_str()) => {
                let items = items.into_iter().map(|item| match item {
                    Tree::Object(entries) => object(entries, &here, known, strictness),
                    other => Ok(whole(other, strictness)),
                });
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            (None, Tree::List(_)) => {
                return Err(DecodeError::Field {
                    path: here,
                    message: "a list, where fields must be".to_owned(),
                });
            }
            (None, Tree::Leaf(value)) => value,
        };
        fields.insert(key.name, value);
    }
    Ok(Value::Object(fields))
}

fn is_below(path: &str, section: &str) -> bool {
    path.strip_prefix(section)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// A value whose names are free.
fn whole(tree: Tree, strictness: &mut Strictness) -> Value {
    match tree {
        Tree::Leaf(value) => value,
        Tree::List(items) => {
            let items = items.into_iter().map(|item| whole(item, strictness));
            Value::Array(items.collect())
        }
        Tree::Object(entries) => {
            let mut object = Map::new();
            for (key, tree) in entries {
                let value = whole(tree, strictness);
                if object.insert(key.name.clone(), value).is_some() {
                    strictness.duplicates.push((key.line, key.name));
                }
            }
            Value::Object(object)
        }
    }
}

/// A document as it is written, with every entry of its maps.
#[derive(Debug)]
enum Tree {
    Leaf(Value),
    List(Vec<Self>),
    Object(Vec<(Key, Self)>),
}

#[derive(Debug)]
struct Key {
    name: String,
    line: u64,
}

impl Tree {
    /// Where a whole number is wanted, 14.0 and 1e1 are some.
    fn with_whole_numbers(self) -> Self {
        match self {
            Self::Leaf(Value::Number(number)) => {
                let whole = number.as_f64().filter(|_| number.is_f64());
                let whole = whole.and_then(whole_number).map(Number::from);
                Self::Leaf(Value::Number(whole.unwrap_or(number)))
            }
            Self::Leaf(other) => Self::Leaf(other),
            Self::List(items) => {
                Self::List(items.into_iter().map(Self::with_whole_numbers).collect())
            }
            Self::Object(entries) => {
                let entries = entries.into_iter();
                let entries = entries.map(|(key, tree)| (key, tree.with_whole_numbers()));
                Self::Object(entries.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        let number = Number::from_f64(value);
        Ok(Tree::Leaf(number.map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let key = Key {
                line: key.referenced.line(),
                name: key.value,
            };
            entries.push((key, map.next_value()?));
        }
        Ok(Tree::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

    fn read(text: &str) -> Result<Decoded, DecodeError> {
        decode(&format!("{HEADER}{text}"))
    }

    #[test]
    fn unknown_and_repeated_fields_are_named_and_passed_over() {
        let decoded = read(
            "foo: 1\nipvs: {strictArp: true, strictARP: false, bar: {a: 1}}\n\
             conntrack: {min: 1, min: 2}\nlogging: {options: {json: {foo: 2}}}\n\
             metadata: {name: x}\nclusterCIDR: a\nclusterCIDR: b\n",
        );
        let decoded = decoded.unwrap();
        assert_eq!(decoded.config.conntrack.min, Some(2));
        assert_eq!(decoded.config.cluster_cidr, "b");
        assert_eq!(
            decoded.strictness.unwrap().to_string(),
            "strict decoding error: line 5: key \"min\" already set in map, \
             line 9: key \"clusterCIDR\" already set in map, unknown field \"foo\", \
             unknown field \"ipvs.bar\", unknown field \"ipvs.strictArp\", \
             unknown field \"logging.options.json.foo\", unknown field \"metadata\""
        );
        assert_eq!(read("mode: nftables\n").unwrap().strictness, None);
    }

    #[test]
    fn json_is_read_too_with_tabs() {
        let json = "{\n\t\"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\",\n\t\"kind\": \
                    \"KubeProxyConfiguration\",\n\t\"mode\": \"nftables\", \"mode\": \"ipvs\"}";
        let decoded = decode(json).unwrap();
        assert_eq!(decoded.config.mode, "ipvs");
        assert_eq!(decoded.strictness.unwrap().duplicates.len(), 1);
    }

    #[test]
    fn the_first_document_alone_is_read() {
        let text = format!("# first\n---\n{HEADER}mode: ipvs\n---\nkind: KubeletConfiguration\n");
        assert_eq!(decode(&text).unwrap().config.mode, "ipvs");
    }

    #[test]
    fn words_of_old_yaml_are_understood() {
        let decoded =
            read("iptables: {masqueradeAll: yes, masqueradeBit: 0xf}\noomScoreAdj: 010\n");
        let config = decoded.unwrap().config;
        assert!(config.iptables.masquerade_all);
        assert_eq!(config.iptables.masquerade_bit, Some(15));
        assert_eq!(config.oom_score_adj, Some(8));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        for (text, path) in [
            ("oomScoreAdj: foo", "oomScoreAdj"),
            ("oomScoreAdj: 1.5", "oomScoreAdj"),
            ("oomScoreAdj: \"7\"", "oomScoreAdj"),
            ("hostnameOverride: 5", "hostnameOverride"),
            ("iptables: foo", "iptables"),
            (
                "iptables: {masqueradeAll: \"yes\"}",
                "iptables.masqueradeAll",
            ),
            ("clientConnection: {qps: \"5\"}", "clientConnection.qps"),
            ("nodePortAddresses: foo", "nodePortAddresses"),
            ("configSyncPeriod: null", "configSyncPeriod"),
            ("configSyncPeriod: 5", "configSyncPeriod"),
            ("configSyncPeriod: 5x", "configSyncPeriod"),
            ("logging: {verbosity: -1}", "logging.verbosity"),
            ("featureGates: {A: \"true\"}", "featureGates.A"),
        ] {
            match read(text) {
                Err(DecodeError::Field { path: found, .. }) => assert_eq!(found, path, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let null = read("conntrack: {min: null, tcpCloseWaitTimeout: null}\nbindAddress: null\n");
        assert_eq!(null.unwrap().config, KubeProxyConfiguration::default());
    }

    #[test]
    fn other_files_are_told_from_this_one() {
        let other = |text: &str| decode(text).unwrap_err();
        assert_eq!(other("Twas bryllyg"), DecodeError::NoObject);
        assert_eq!(other("[1]"), DecodeError::NoObject);
        assert_eq!(other(""), DecodeError::NoObject);
        assert_eq!(other("mode: ipvs"), DecodeError::Missing("Kind"));
        let kind = "kind: KubeProxyConfiguration";
        assert_eq!(other(kind), DecodeError::Missing("apiVersion"));
        let service = other("apiVersion: v1\nkind: Service\n");
        assert_eq!(
            service.to_string(),
            "no kind \"Service\" is registered for version \"v1\""
        );
        let broken = other(&format!("{HEADER}bindAddress: ::\n"));
        assert!(
            matches!(broken, DecodeError::Syntax { line: 3, .. }),
            "{broken}"
        );
    }
}
