//! One object of any kind.
//!
//! Fields may come in any order; kubectl sorts them (`endpoints` before `kind`), the API server
//! does not. `spec` and `status` mean different things for each kind, so they wait in the rare
//! document that has them before `kind`.

use core::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::api::{
    Endpoint, EndpointPort, EndpointSlice, Kind, Metadata, Node, Service, ServiceCidr, Text,
};

/// An object as read.
#[derive(Debug)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "made, read and dropped one at a time on the stack"
)]
pub enum Object<'a> {
    /// A Service.
    Service(Service<'a>),
    /// An EndpointSlice.
    EndpointSlice(EndpointSlice<'a>),
    /// A Node.
    Node(Node<'a>),
    /// A ServiceCIDR.
    ServiceCidr(ServiceCidr<'a>),
    /// A list, which is read item by item.
    List,
    /// A kind that is none of ours.
    Other,
    /// An object that does not say what it is.
    Unknown,
}

impl<'a> Object<'a> {
    /// Its metadata, if it is of one of our kinds.
    #[must_use]
    pub const fn metadata(&self) -> Option<&Metadata<'a>> {
        match self {
            Self::Service(it) => Some(&it.metadata),
            Self::EndpointSlice(it) => Some(&it.metadata),
            Self::Node(it) => Some(&it.metadata),
            Self::ServiceCidr(it) => Some(&it.metadata),
            Self::List | Self::Other | Self::Unknown => None,
        }
    }
}

/// Reads one object.
pub(super) struct ObjectSeed {
    /// Kind of an object that does not name its own, as in a typed list.
    pub(super) kind: Option<Kind>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed {
    type Value = Object<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut parts = Parts {
            default: self.kind,
            ..Parts::default()
        };
        while let Some(field) = map.next_key::<Field>()? {
            match field {
                Field::ApiVersion => parts.api_version = map.next_value()?,
                Field::Kind => parts.kind = map.next_value()?,
                Field::Metadata => parts.metadata = or_default(&mut map)?,
                Field::Spec => parts.spec(&mut map)?,
                Field::Status => parts.status(&mut map)?,
                Field::AddressType if parts.may_be_slice() => {
                    parts.slice.address_type = map.next_value()?;
                }
                Field::Endpoints if parts.may_be_slice() => {
                    parts.slice.endpoints = or_default::<_, Vec<Endpoint<'de>>>(&mut map)?;
                }
                Field::Ports if parts.may_be_slice() => {
                    parts.slice.ports = or_default::<_, Vec<EndpointPort<'de>>>(&mut map)?;
                }
                Field::Items => parts.is_list = map.next_value::<Option<IgnoredAny>>()?.is_some(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        parts.finish()
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    ApiVersion,
    Kind,
    Metadata,
    Spec,
    Status,
    AddressType,
    Endpoints,
    Ports,
    Items,
    #[serde(other)]
    Other,
}

/// What is known of an object's kind so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Ours(Kind),
    Foreign,
    NotYet,
}

#[derive(Default)]
struct Parts<'de> {
    default: Option<Kind>,
    api_version: Option<Text<'de>>,
    kind: Option<Text<'de>>,
    metadata: Metadata<'de>,
    service: Service<'de>,
    slice: EndpointSlice<'de>,
    node: Node<'de>,
    cidr: ServiceCidr<'de>,
    waiting_spec: Option<Value>,
    waiting_status: Option<Value>,
    is_list: bool,
}

impl<'de> Parts<'de> {
    fn known(&self) -> Known {
        match (&self.api_version, &self.kind, self.default) {
            (Some(version), Some(kind), _) => {
                Kind::of(version, kind).map_or(Known::Foreign, Known::Ours)
            }
            (None, None, Some(kind)) => Known::Ours(kind),
            _ => Known::NotYet,
        }
    }

    fn may_be_slice(&self) -> bool {
        matches!(
            self.known(),
            Known::NotYet | Known::Ours(Kind::EndpointSlice)
        )
    }

    fn spec<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        match self.known() {
            Known::Ours(Kind::Service) => self.service.spec = or_default(map)?,
            Known::Ours(Kind::Node) => self.node.spec = or_default(map)?,
            Known::Ours(Kind::ServiceCidr) => self.cidr.spec = or_default(map)?,
            Known::NotYet => self.waiting_spec = map.next_value()?,
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
        Ok(())
    }

    fn status<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        match self.known() {
            Known::Ours(Kind::Service) => self.service.status = or_default(map)?,
            Known::Ours(Kind::Node) => self.node.status = or_default(map)?,
            Known::NotYet => self.waiting_status = map.next_value()?,
            _ => _ = map.next_value::<IgnoredAny>()?,
        }
        Ok(())
    }

    fn finish<E: serde::de::Error>(mut self) -> Result<Object<'de>, E> {
        if self.is_list {
            return Ok(Object::List);
        }
        let spec = self.waiting_spec.take();
        let status = self.waiting_status.take();
        Ok(match self.known() {
            Known::Ours(Kind::Service) => {
                late(spec, &mut self.service.spec)?;
                late(status, &mut self.service.status)?;
                self.service.metadata = self.metadata;
                Object::Service(self.service)
            }
            Known::Ours(Kind::EndpointSlice) => {
                self.slice.metadata = self.metadata;
                Object::EndpointSlice(self.slice)
            }
            Known::Ours(Kind::Node) => {
                late(spec, &mut self.node.spec)?;
                late(status, &mut self.node.status)?;
                self.node.metadata = self.metadata;
                Object::Node(self.node)
            }
            Known::Ours(Kind::ServiceCidr) => {
                late(spec, &mut self.cidr.spec)?;
                self.cidr.metadata = self.metadata;
                Object::ServiceCidr(self.cidr)
            }
            Known::Foreign => Object::Other,
            Known::NotYet => Object::Unknown,
        })
    }
}

fn or_default<'de, A: MapAccess<'de>, T: Deserialize<'de> + Default>(
    map: &mut A,
) -> Result<T, A::Error> {
    Ok(map.next_value::<Option<T>>()?.unwrap_or_default())
}

/// Reads a part that came before its kind was known.
fn late<'de, T: Deserialize<'de>, E: serde::de::Error>(
    value: Option<Value>,
    into: &mut T,
) -> Result<(), E> {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        *into = T::deserialize(value).map_err(E::custom)?;
    }
    Ok(())
}

/// Identity of an object that could not be read in full, for messages: whatever is there, of
/// whatever type.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Probe {
    api_version: Value,
    kind: Value,
    metadata: Value,
}

impl Probe {
    /// Kind of the items of a list with this head.
    pub(super) fn items_kind(&self) -> Option<Kind> {
        Kind::of_list(self.api_version.as_str()?, self.kind.as_str()?)
    }

    /// Whether a list has said what it is a list of.
    pub(super) fn declares(&self) -> bool {
        !self.api_version.is_null() && !self.kind.is_null()
    }

    /// Whether an object leaves it to its list to say what it is.
    pub(super) fn is_kindless(&self) -> bool {
        self.api_version.is_null() && self.kind.is_null()
    }

    /// Whether the object is one of ours, given the kind its list declares.
    pub(super) fn is_ours(&self, default: Option<Kind>) -> bool {
        match (&self.api_version, &self.kind) {
            (Value::String(version), Value::String(kind)) => Kind::of(version, kind).is_some(),
            (Value::Null, Value::Null) => default.is_some(),
            // Nobody knows: better told than left out in silence.
            _ => true,
        }
    }

    /// Kind, namespace and name as far as known.
    pub(super) fn describe(&self, default: Option<Kind>) -> String {
        let kind = match (self.kind.as_str(), default) {
            (Some(kind), _) => kind,
            (None, Some(kind)) => kind.name(),
            (None, None) => "object",
        };
        let word = |field: &str| match self.metadata.get(field)? {
            Value::String(word) => Some(word.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        match (word("namespace"), word("name")) {
            (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
            (None, Some(name)) => format!("{kind} {name}"),
            _ => format!("{kind} without a name"),
        }
    }
}
