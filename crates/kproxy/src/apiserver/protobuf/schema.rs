//! An encoder for tests: from JSON, by the field numbers of `generated.proto`, empty strings and
//! zeroes written as Go's encoder writes them.

use serde_json::Value as Json;

use super::MAGIC;
use crate::api::Kind;

/// How a field is written.
#[derive(Clone, Copy)]
enum Form {
    /// Text, even if there is none.
    Text,
    /// Text if there is any.
    Pointer,
    /// A number, even if there is none.
    Number,
    /// A number if there is one.
    NumberPointer,
    Flag,
    Texts,
    Map,
    Time,
    One(&'static [Field]),
    Many(&'static [Field]),
}

type Field = (&'static str, u32, Form);

const METADATA: &[Field] = &[
    ("name", 1, Form::Text),
    ("generateName", 2, Form::Text),
    ("namespace", 3, Form::Text),
    ("selfLink", 4, Form::Text),
    ("uid", 5, Form::Text),
    ("resourceVersion", 6, Form::Text),
    ("generation", 7, Form::Number),
    ("creationTimestamp", 8, Form::Time),
    ("deletionTimestamp", 9, Form::Time),
    ("labels", 11, Form::Map),
    ("annotations", 12, Form::Map),
    ("finalizers", 14, Form::Texts),
];
const TAINT: &[Field] = &[
    ("key", 1, Form::Text),
    ("value", 2, Form::Text),
    ("effect", 3, Form::Text),
];
const LIST_METADATA: &[Field] = &[
    ("selfLink", 1, Form::Text),
    ("resourceVersion", 2, Form::Text),
    ("continue", 3, Form::Text),
];
const SERVICE: &[Field] = &[
    ("metadata", 1, Form::One(METADATA)),
    ("spec", 2, Form::One(SERVICE_SPEC)),
    (
        "status",
        3,
        Form::One(&[(
            "loadBalancer",
            1,
            Form::One(&[("ingress", 1, Form::Many(INGRESS))]),
        )]),
    ),
];
const SERVICE_SPEC: &[Field] = &[
    ("ports", 1, Form::Many(SERVICE_PORT)),
    ("selector", 2, Form::Map),
    ("clusterIP", 3, Form::Text),
    ("type", 4, Form::Text),
    ("externalIPs", 5, Form::Texts),
    ("sessionAffinity", 7, Form::Text),
    ("loadBalancerIP", 8, Form::Text),
    ("loadBalancerSourceRanges", 9, Form::Texts),
    ("externalName", 10, Form::Text),
    ("externalTrafficPolicy", 11, Form::Text),
    ("healthCheckNodePort", 12, Form::Number),
    ("publishNotReadyAddresses", 13, Form::Flag),
    (
        "sessionAffinityConfig",
        14,
        Form::One(&[(
            "clientIP",
            1,
            Form::One(&[("timeoutSeconds", 1, Form::NumberPointer)]),
        )]),
    ),
    ("clusterIPs", 18, Form::Texts),
    ("ipFamilies", 19, Form::Texts),
    ("internalTrafficPolicy", 22, Form::Pointer),
];
const SERVICE_PORT: &[Field] = &[
    ("name", 1, Form::Text),
    ("protocol", 2, Form::Text),
    ("port", 3, Form::Number),
    ("nodePort", 5, Form::Number),
    ("appProtocol", 6, Form::Pointer),
];
const INGRESS: &[Field] = &[
    ("ip", 1, Form::Text),
    ("hostname", 2, Form::Text),
    ("ipMode", 3, Form::Pointer),
];
const SLICE: &[Field] = &[
    ("metadata", 1, Form::One(METADATA)),
    ("endpoints", 2, Form::Many(ENDPOINT)),
    (
        "ports",
        3,
        Form::Many(&[
            ("name", 1, Form::Pointer),
            ("protocol", 2, Form::Pointer),
            ("port", 3, Form::NumberPointer),
        ]),
    ),
    ("addressType", 4, Form::Text),
];
const ENDPOINT: &[Field] = &[
    ("addresses", 1, Form::Texts),
    (
        "conditions",
        2,
        Form::One(&[
            ("ready", 1, Form::Flag),
            ("serving", 2, Form::Flag),
            ("terminating", 3, Form::Flag),
        ]),
    ),
    ("hostname", 3, Form::Pointer),
    (
        "targetRef",
        4,
        Form::One(&[("kind", 1, Form::Text), ("name", 3, Form::Text)]),
    ),
    ("nodeName", 6, Form::Pointer),
    ("zone", 7, Form::Pointer),
    (
        "hints",
        8,
        Form::One(&[
            ("forZones", 1, Form::Many(&[("name", 1, Form::Text)])),
            ("forNodes", 2, Form::Many(&[("name", 1, Form::Text)])),
        ]),
    ),
];
const NODE: &[Field] = &[
    ("metadata", 1, Form::One(METADATA)),
    (
        "spec",
        2,
        Form::One(&[
            ("podCIDR", 1, Form::Text),
            ("taints", 5, Form::Many(TAINT)),
            ("podCIDRs", 7, Form::Texts),
        ]),
    ),
    (
        "status",
        3,
        Form::One(&[
            ("phase", 3, Form::Text),
            (
                "addresses",
                5,
                Form::Many(&[("type", 1, Form::Text), ("address", 2, Form::Text)]),
            ),
        ]),
    ),
];
const CIDR: &[Field] = &[
    ("metadata", 1, Form::One(METADATA)),
    ("spec", 2, Form::One(&[("cidrs", 1, Form::Texts)])),
];
const STATUS: &[Field] = &[
    ("status", 2, Form::Text),
    ("message", 3, Form::Text),
    ("reason", 4, Form::Text),
    (
        "details",
        5,
        Form::One(&[("retryAfterSeconds", 5, Form::Number)]),
    ),
    ("code", 6, Form::Number),
];

/// An object without its envelope.
pub(in crate::apiserver) fn object(kind: Kind, json: &Json) -> Vec<u8> {
    let fields = match kind {
        Kind::Service => SERVICE,
        Kind::EndpointSlice => SLICE,
        Kind::Node => NODE,
        Kind::ServiceCidr => CIDR,
    };
    message(fields, json)
}

/// An object with its envelope.
pub(in crate::apiserver) fn enveloped(kind: Kind, json: &Json) -> Vec<u8> {
    envelope(kind.name(), &object(kind, json))
}

/// A `Status` with its envelope.
pub(in crate::apiserver) fn status(json: &Json) -> Vec<u8> {
    envelope("Status", &message(STATUS, json))
}

/// A list with its envelope.
pub(in crate::apiserver) fn list(
    kind: Kind,
    version: &str,
    token: &str,
    items: &[Json],
) -> Vec<u8> {
    let items: Vec<_> = items.iter().map(|item| object(kind, item)).collect();
    list_of(&format!("{kind}List"), version, token, &items)
}

/// The same of items that are encoded already.
pub(in crate::apiserver) fn list_of(
    kind: &str,
    version: &str,
    token: &str,
    items: &[Vec<u8>],
) -> Vec<u8> {
    let mut out = Vec::new();
    let metadata = serde_json::json!({"resourceVersion": version, "continue": token});
    bytes(&mut out, 1, &message(LIST_METADATA, &metadata));
    for item in items {
        bytes(&mut out, 2, item);
    }
    envelope(kind, &out)
}

/// A watch event, without its length.
pub(in crate::apiserver) fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::new();
    bytes(&mut raw, 1, object);
    let mut out = Vec::new();
    bytes(&mut out, 1, kind.as_bytes());
    bytes(&mut out, 2, &raw);
    out
}

fn envelope(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    bytes(&mut types, 1, b"v1");
    bytes(&mut types, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    bytes(&mut out, 1, &types);
    bytes(&mut out, 2, object);
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    out
}

fn message(fields: &[Field], json: &Json) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, form) in fields {
        field(&mut out, *number, *form, &json[*name]);
    }
    out
}

fn field(out: &mut Vec<u8>, number: u32, form: Form, json: &Json) {
    match form {
        Form::Text => bytes(out, number, json.as_str().unwrap_or_default().as_bytes()),
        Form::Pointer => {
            if let Some(text) = json.as_str() {
                bytes(out, number, text.as_bytes());
            }
        }
        Form::Number => int(out, number, json.as_i64().unwrap_or_default()),
        Form::NumberPointer => {
            if let Some(value) = json.as_i64() {
                int(out, number, value);
            }
        }
        Form::Flag => {
            if let Some(flag) = json.as_bool() {
                int(out, number, i64::from(flag));
            }
        }
        Form::Texts => {
            for text in json.as_array().into_iter().flatten() {
                bytes(out, number, text.as_str().unwrap().as_bytes());
            }
        }
        Form::Map => {
            for (key, value) in json.as_object().into_iter().flatten() {
                let mut entry = Vec::new();
                bytes(&mut entry, 1, key.as_bytes());
                bytes(&mut entry, 2, value.as_str().unwrap().as_bytes());
                bytes(out, number, &entry);
            }
        }
        Form::Time => {
            let mut time = Vec::new();
            if let Some(text) = json.as_str() {
                let seconds = crate::ingest::parse_rfc3339(text).unwrap();
                int(&mut time, 1, i64::try_from(seconds).unwrap());
                int(&mut time, 2, 0);
            }
            bytes(out, number, &time);
        }
        Form::One(fields) => {
            if json.is_object() {
                bytes(out, number, &message(fields, json));
            }
        }
        Form::Many(fields) => {
            for item in json.as_array().into_iter().flatten() {
                bytes(out, number, &message(fields, item));
            }
        }
    }
}

fn int(out: &mut Vec<u8>, number: u32, value: i64) {
    varint(out, u64::from(number) << 3);
    varint(out, u64::from_ne_bytes(value.to_ne_bytes()));
}

fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, u64::try_from(value.len()).unwrap());
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}
