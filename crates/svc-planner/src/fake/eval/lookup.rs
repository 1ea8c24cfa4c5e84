//! What a packet finds in sets and maps, and the rows it leaves in dynamic ones.

use ipnet::IpNet;

use super::Walk;
use crate::fake::clients::{Effect, Memory};
use crate::fake::packet::Step;
use crate::plan::{Datum, EndpointId, Field, Key, KeyType, Name};

impl Walk<'_> {
    pub(super) fn lookup(&mut self, fields: &[Field], set: &Name) -> Option<Datum> {
        let key = self.key(fields, set)?;
        let (found, generation) = match self.remembered(set, &key) {
            Some(found) => (found.map(Datum::EndpointId), self.reader.floor()),
            None => self.reader.lookup(set, &key),
        };
        self.trace.push(Step::Lookup {
            set: set.clone(),
            key,
            found: found.clone(),
            generation,
        });
        found
    }

    /// What a dynamic map holds for a key; the outer `None` if the set is no such map.
    fn remembered(&self, set: &Name, key: &Key) -> Option<Option<EndpointId>> {
        let clients = self.reader.clients(set)?;
        Some(match self.memory {
            Memory::Rows(now) => clients.at(key, now).map(|client| client.endpoint),
            Memory::Assumed(row) => row.and_then(|(map, id)| (map == set).then_some(*id)),
        })
    }

    /// Adds or refreshes a row of a dynamic map; false if there is no room.
    pub(super) fn stick(&mut self, fields: &[Field], map: &Name, seconds: u32) -> bool {
        let Some(key) = self.key(fields, map) else {
            return false;
        };
        let Some(clients) = self.reader.clients(map) else {
            return false;
        };
        if let Memory::Rows(now) = self.memory
            && clients.at(&key, now).is_none()
            && clients.len(now) >= self.reader.size(map)
        {
            return false;
        }
        let endpoint = EndpointId(self.scratch);
        self.trace.push(Step::Stuck {
            map: map.clone(),
            key,
            endpoint,
        });
        self.effects.push(Effect {
            map: map.clone(),
            key,
            stick: Some((endpoint, seconds)),
        });
        true
    }

    /// The key a packet has; none when it has no ports and the key needs some.
    pub(super) fn key(&mut self, fields: &[Field], set: &Name) -> Option<Key> {
        let mut addresses = [None, None];
        let mut numbers = [None, None];
        let mut protocol = None;
        let mut port = None;
        for field in fields {
            match field {
                Field::Saddr => put(&mut addresses, self.packet.saddr),
                Field::Daddr => put(&mut addresses, self.daddr),
                Field::L4Proto => protocol = Some(self.ports?.0),
                Field::Dport => port = Some(self.ports?.1),
                Field::Scratch { mask } => put(&mut numbers, self.scratch & mask),
                Field::Random { modulus, offset } => {
                    let number = self.random(*modulus) + offset;
                    self.trace.push(Step::Number {
                        number,
                        modulus: *modulus,
                    });
                    put(&mut numbers, number);
                }
            }
        }
        let [address, other] = addresses;
        let [number, second] = numbers;
        let key = match self.reader.key_type(set)? {
            KeyType::Address => Key::Address(address?),
            KeyType::Frontend => Key::Frontend {
                address: address?,
                protocol: protocol?,
                port: port?,
            },
            KeyType::NodePort => Key::NodePort {
                protocol: protocol?,
                port: port?,
            },
            KeyType::Class => Key::Class(number?),
            KeyType::Group => Key::Group(number?),
            KeyType::Slot => Key::Slot {
                group: number?,
                slot: second?,
            },
            KeyType::State => Key::State {
                instance: number?,
                sequence: second?,
            },
            // Rows name one address for both sides.
            KeyType::Hairpin if address == other => Key::Hairpin {
                address: address?,
                protocol: protocol?,
                port: port?,
            },
            KeyType::Hairpin => return None,
            KeyType::Source => Key::Source {
                list: number?,
                range: IpNet::from(address?),
            },
            KeyType::Client => Key::Client {
                client: address?,
                address: other?,
                protocol: protocol?,
                port: port?,
            },
            KeyType::EndpointId => Key::EndpointId(EndpointId(number?)),
        };
        Some(key)
    }

    fn random(&mut self, modulus: u32) -> u32 {
        let options = usize::try_from(modulus).unwrap_or(usize::MAX).max(1);
        u32::try_from(self.reader.choose(options)).unwrap_or(0)
    }
}

fn put<T>(places: &mut [Option<T>; 2], value: T) {
    if let Some(place) = places.iter_mut().find(|place| place.is_none()) {
        *place = Some(value);
    }
}
