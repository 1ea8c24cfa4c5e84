//! The way back: rules and sets as the kernel lists them to what the planner calls them, so that live
//! rules can be explained like planned ones.
//!
//! Registers are followed symbolically: a load remembers what a register holds, a comparison or
//! lookup turns it into a statement. What the planner would not write is an error that names the
//! expression; nothing is guessed.

mod set;

pub(crate) use set::base_name;
pub use set::raise_set;

use core::net::IpAddr;
use std::collections::HashMap;

use ipnet::IpNet;
use nl_codec::nft::expr::{
    AddrType, Bitwise, BitwiseOp, Cmp, CmpOp, CtKey, CtState, CtStatus, Dynset, DynsetOp, FibFlags,
    FibResult, Immediate, Lookup, LookupFlags, MetaKey, Nat, NatType, NumgenType, Payload,
    PayloadBase, RejectType,
};
use nl_codec::nft::udata;
use nl_codec::nft::{self, Data, Expr, Register, Verdict, VerdictCode};
use svc_planner::object::Protocol;
use svc_planner::plan::{Family, Field, Name, Rule, Set, Statement};
use thiserror::Error;

use super::bytes::protocol_number;
use super::set::key_type;

/// What the planner does not write.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RaiseError {
    /// A rule with an expression, or an order of them, that the planner does not use.
    #[error("chain {chain}: {expression} is not of our making")]
    Rule {
        /// Chain.
        chain: String,
        /// The expression, as `nft --debug=netlink` shows it.
        expression: String,
    },
    /// A set with a key or data that the planner does not use.
    #[error("set {0}: its key or data are not of our making")]
    Set(String),
    /// A message without a name, or one that cannot be decoded.
    #[error("{0} without what it needs")]
    Malformed(&'static str),
}

/// A rule as the kernel lists it; `sets` are those of its table.
///
/// # Errors
/// [`RaiseError::Rule`], [`RaiseError::Malformed`].
pub fn raise_rule(
    family: Family,
    sets: &HashMap<Name, Set>,
    rule: &nft::Rule<'_>,
) -> Result<Rule, RaiseError> {
    let chain = rule.chain.and_then(|chain| chain.to_str());
    let chain = chain.ok_or(RaiseError::Malformed("rule"))?;
    let mut raising = Raising {
        family,
        sets,
        registers: [const { None }; UNITS],
        statements: Vec::new(),
    };
    for expr in rule.exprs.iter().flatten() {
        let expr = expr.map_err(|_| RaiseError::Malformed("expression"))?;
        raising.expr(&expr).ok_or_else(|| RaiseError::Rule {
            chain: chain.to_owned(),
            expression: expr.to_string(),
        })?;
    }
    let comment = rule.userdata.and_then(udata::comment);
    Ok(Rule {
        chain: chain.into(),
        statements: raising.statements,
        comment: comment.and_then(|comment| comment.to_str().map(Name::from)),
    })
}

/// Registers hold 16 units of 4 bytes.
const UNITS: usize = 16;

/// What a register holds.
#[derive(Debug, Clone, PartialEq)]
enum Held {
    /// A field of a key.
    Field(Field),
    /// Bytes at the beginning of an address.
    Address(Side, u32),
    /// An address without the bits behind a prefix.
    Masked(Side, u8),
    Mark {
        mask: u32,
        xor: u32,
    },
    Ct(CtKey, u32),
    Iifname,
    AddrType(Side),
    /// Data of a map.
    Found {
        key: Vec<Field>,
        map: Name,
    },
    /// The scratch and these bits.
    ScratchOr(u32),
    Zero,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

struct Raising<'a> {
    family: Family,
    sets: &'a HashMap<Name, Set>,
    registers: [Option<Held>; UNITS],
    statements: Vec<Statement>,
}

impl Raising<'_> {
    /// Takes an expression in; `None` if it is none of ours.
    fn expr(&mut self, expr: &Expr<'_>) -> Option<()> {
        match expr {
            Expr::Payload(payload) => self.payload(payload),
            Expr::Meta(meta) => match (meta.dreg, meta.sreg) {
                (Some(dreg), None) => self.hold(dreg, meta_field(meta.key?)?),
                (None, Some(sreg)) => self.meta_set(meta.key?, sreg),
                _ => None,
            },
            Expr::Ct(ct) if ct.direction.is_none() && ct.sreg.is_none() => {
                self.hold(ct.dreg?, Held::Ct(ct.key?, u32::MAX))
            }
            Expr::Numgen(numgen) if numgen.numgen_type? == NumgenType::RANDOM => self.hold(
                numgen.dreg?,
                Held::Field(Field::Random {
                    modulus: numgen.modulus?,
                    offset: numgen.offset.unwrap_or(0),
                }),
            ),
            Expr::Fib(fib) if fib.result? == FibResult::ADDRTYPE => {
                let side = match fib.flags? {
                    FibFlags::SADDR => Side::Source,
                    FibFlags::DADDR => Side::Destination,
                    _ => return None,
                };
                self.hold(fib.dreg?, Held::AddrType(side))
            }
            Expr::Bitwise(bitwise) => self.bitwise(bitwise),
            Expr::Cmp(cmp) => self.cmp(cmp),
            Expr::Lookup(lookup) => self.lookup(lookup),
            Expr::Immediate(immediate) => self.immediate(immediate),
            Expr::Nat(nat) => self.nat(nat),
            Expr::Dynset(dynset) => self.dynset(dynset),
            Expr::Reject(reject) if reject.reject_type? == RejectType::ICMP_UNREACH => {
                self.state(Statement::Reject)
            }
            Expr::Counter(_) => self.state(Statement::Counter),
            Expr::Masq(_) => self.state(Statement::Masquerade),
            _ => None,
        }
    }

    fn state(&mut self, statement: Statement) -> Option<()> {
        self.statements.push(statement);
        Some(())
    }

    fn hold(&mut self, register: Register, held: Held) -> Option<()> {
        *self.registers.get_mut(unit(register)?)? = Some(held);
        Some(())
    }

    fn held(&self, register: Option<Register>) -> Option<&Held> {
        self.registers.get(unit(register?)?)?.as_ref()
    }

    fn payload(&mut self, payload: &Payload) -> Option<()> {
        let (offset, len) = (payload.offset?, payload.len?);
        let (source, destination, length) = match self.family {
            Family::Ipv4 => (12, 16, 4),
            Family::Ipv6 => (8, 24, 16),
        };
        let held = match payload.base? {
            PayloadBase::TRANSPORT if (offset, len) == (2, 2) => Held::Field(Field::Dport),
            PayloadBase::NETWORK if offset == source && len <= length => {
                Held::Address(Side::Source, len)
            }
            PayloadBase::NETWORK if offset == destination && len <= length => {
                Held::Address(Side::Destination, len)
            }
            _ => return None,
        };
        self.hold(payload.dreg?, held)
    }

    fn bitwise(&mut self, bitwise: &Bitwise<'_>) -> Option<()> {
        if bitwise.op.is_some_and(|op| op != BitwiseOp::MASK_XOR) {
            return None;
        }
        let (mask, xor) = (bytes(bitwise.mask.as_ref())?, bytes(bitwise.xor.as_ref())?);
        let word = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_ne_bytes);
        let held = match self.held(bitwise.sreg)? {
            Held::Field(Field::Scratch { mask: u32::MAX }) if word(xor)? == 0 => {
                Held::Field(Field::Scratch { mask: word(mask)? })
            }
            Held::Field(Field::Scratch { mask: u32::MAX }) if !word(mask)? == word(xor)? => {
                Held::ScratchOr(word(xor)?)
            }
            Held::Mark {
                mask: u32::MAX,
                xor: 0,
            } => Held::Mark {
                mask: word(mask)?,
                xor: word(xor)?,
            },
            Held::Ct(key, u32::MAX) if word(xor)? == 0 => Held::Ct(*key, word(mask)?),
            Held::Address(side, _) if xor.iter().all(|byte| *byte == 0) => {
                let netmask = address(self.family, mask)?;
                Held::Masked(*side, ipnet::ip_mask_to_prefix(netmask).ok()?)
            }
            _ => return None,
        };
        self.hold(bitwise.dreg?, held)
    }

    fn cmp(&mut self, cmp: &Cmp<'_>) -> Option<()> {
        let invert = match cmp.op? {
            CmpOp::EQ => false,
            CmpOp::NEQ => true,
            _ => return None,
        };
        let value = bytes(cmp.data.as_ref())?;
        let word = value.try_into().ok().map(u32::from_ne_bytes);
        let statement = match self.held(cmp.sreg)? {
            Held::Ct(key, mask) if invert && word == Some(0) => {
                if (*key, *mask) == (CtKey::STATE, CtState::NEW.bits()) {
                    Statement::CtStateNew
                } else if (*key, *mask) == (CtKey::STATUS, CtStatus::DST_NAT.bits()) {
                    Statement::CtStatusDnat
                } else {
                    return None;
                }
            }
            Held::Mark { mask, xor: 0 } if invert && word == Some(0) => {
                Statement::MarkSet { mask: *mask }
            }
            Held::Field(Field::L4Proto) if !invert => {
                let number = value.first().copied()?;
                let mut protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter();
                Statement::L4Proto(protocols.find(|it| protocol_number(*it) == number)?)
            }
            Held::Field(Field::Scratch { mask }) if invert && word == Some(0) => {
                Statement::ScratchSet { mask: *mask }
            }
            Held::AddrType(side) if !invert && word == Some(AddrType::LOCAL.0) => match side {
                Side::Source => Statement::FibSaddrLocal,
                Side::Destination => Statement::FibDaddrLocal,
            },
            Held::Address(side, len) => {
                let prefix = u8::try_from(len.checked_mul(8)?).ok()?;
                self.prefix(*side, value, prefix, invert)?
            }
            Held::Masked(side, prefix) => self.prefix(*side, value, *prefix, invert)?,
            Held::Iifname => {
                let name: Vec<u8> = value.iter().copied().take_while(|it| *it != 0).collect();
                Statement::Iifname {
                    // A name as long as what is compared goes on.
                    prefix: name.len() == value.len(),
                    name: String::from_utf8(name).ok()?.into(),
                    invert,
                }
            }
            _ => return None,
        };
        self.state(statement)
    }

    fn prefix(&self, side: Side, value: &[u8], prefix: u8, invert: bool) -> Option<Statement> {
        let prefix = IpNet::new(address(self.family, value)?, prefix).ok()?;
        Some(match side {
            Side::Source => Statement::Saddr { prefix, invert },
            Side::Destination => Statement::Daddr { prefix, invert },
        })
    }

    fn meta_set(&mut self, key: MetaKey, sreg: Register) -> Option<()> {
        let statement = match (key, self.held(Some(sreg))?.clone()) {
            // Or part of a dnat statement, see there.
            (MetaKey::PRIORITY, Held::Zero) => Statement::ScratchReset,
            (MetaKey::PRIORITY, Held::Found { key, map }) => Statement::ScratchFromMap { key, map },
            (MetaKey::PRIORITY, Held::Field(Field::Scratch { mask })) => {
                Statement::ScratchMask { mask }
            }
            (MetaKey::PRIORITY, Held::ScratchOr(bits)) => Statement::ScratchOr { bits },
            (MetaKey::MARK, Held::Mark { mask, xor }) if mask == !xor => {
                Statement::MarkOr { bits: xor }
            }
            (
                MetaKey::MARK,
                Held::Mark {
                    mask: u32::MAX,
                    xor,
                },
            ) => Statement::MarkXor { bits: xor },
            _ => return None,
        };
        self.state(statement)
    }

    fn lookup(&mut self, lookup: &Lookup<'_>) -> Option<()> {
        let set = self.sets.get(lookup.set?.to_str()?)?;
        let key = self.key(lookup.sreg?, key_type(self.family, set.key).len)?;
        let name = set.name.clone();
        let flags = lookup.flags.unwrap_or(LookupFlags::empty());
        match lookup.dreg {
            None => self.state(Statement::InSet {
                key,
                set: name,
                invert: flags.contains(LookupFlags::INVERT),
            }),
            Some(Register::VERDICT) => self.state(Statement::VerdictMap { key, map: name }),
            Some(dreg) => self.hold(dreg, Held::Found { key, map: name }),
        }
    }

    /// A row with the scratch as its data.
    fn dynset(&mut self, dynset: &Dynset<'_>) -> Option<()> {
        let set = self.sets.get(dynset.set?.to_str()?)?;
        let key = self.key(dynset.sreg_key?, key_type(self.family, set.key).len)?;
        let map = set.name.clone();
        let whole = Held::Field(Field::Scratch { mask: u32::MAX });
        if self.held(dynset.sreg_data) != Some(&whole) {
            return None;
        }
        match dynset.op? {
            DynsetOp::UPDATE => {
                let seconds = dynset.timeout_ms?.checked_div(1000)?;
                let seconds = u32::try_from(seconds).ok()?;
                self.state(Statement::Stick { key, map, seconds })
            }
            DynsetOp::DELETE => self.state(Statement::Unstick { key, map }),
            _ => None,
        }
    }

    /// The fields in the `len` bytes from a register on.
    fn key(&self, register: Register, len: u32) -> Option<Vec<Field>> {
        let mut at = unit(register)?;
        let end = at.checked_add(usize::try_from(len.div_ceil(4)).ok()?)?;
        let mut fields = Vec::new();
        while at < end {
            let (field, units) = match self.registers.get(at)?.as_ref()? {
                Held::Field(field) => (*field, 1),
                Held::Address(side, len) => {
                    let field = match side {
                        Side::Source => Field::Saddr,
                        Side::Destination => Field::Daddr,
                    };
                    (field, usize::try_from(len.div_ceil(4)).ok()?)
                }
                _ => return None,
            };
            fields.push(field);
            at = at.checked_add(units)?;
        }
        Some(fields)
    }

    fn immediate(&mut self, immediate: &Immediate<'_>) -> Option<()> {
        match immediate.data.as_ref()? {
            Data::Value(value) if value.as_bytes().iter().all(|byte| *byte == 0) => {
                self.hold(immediate.dreg?, Held::Zero)
            }
            Data::Verdict(verdict) => {
                let statement = verdict_of(verdict)?;
                self.state(statement)
            }
            _ => None,
        }
    }

    fn nat(&mut self, nat: &Nat) -> Option<()> {
        if nat.nat_type? != NatType::DNAT {
            return None;
        }
        let Held::Found { key, map } = self.held(nat.addr_min)?.clone() else {
            return None;
        };
        if self.statements.last() == Some(&Statement::ScratchReset) {
            self.statements.pop();
        }
        self.state(Statement::Dnat { key, map })
    }
}

fn verdict_of(verdict: &Verdict<'_>) -> Option<Statement> {
    let chain = verdict
        .chain
        .and_then(|chain| chain.to_str())
        .map(Name::from);
    Some(match verdict.code? {
        VerdictCode::JUMP => Statement::Jump(chain?),
        VerdictCode::GOTO => Statement::Goto(chain?),
        VerdictCode::DROP => Statement::Drop,
        _ => return None,
    })
}

fn meta_field(key: MetaKey) -> Option<Held> {
    Some(match key {
        MetaKey::L4PROTO => Held::Field(Field::L4Proto),
        MetaKey::PRIORITY => Held::Field(Field::Scratch { mask: u32::MAX }),
        MetaKey::MARK => Held::Mark {
            mask: u32::MAX,
            xor: 0,
        },
        MetaKey::IIFNAME => Held::Iifname,
        _ => return None,
    })
}

fn bytes<'v>(data: Option<&'v Data<'_>>) -> Option<&'v [u8]> {
    match data? {
        Data::Value(value) => Some(value.as_bytes()),
        _ => None,
    }
}

/// An address of which `bytes` are the beginning.
fn address(family: Family, bytes: &[u8]) -> Option<IpAddr> {
    Some(match family {
        Family::Ipv4 => {
            let mut octets = [0; 4];
            octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
            IpAddr::from(octets)
        }
        Family::Ipv6 => {
            let mut octets = [0; 16];
            octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
            IpAddr::from(octets)
        }
    })
}

/// The 4-byte unit a register starts at.
fn unit(register: Register) -> Option<usize> {
    let unit = match register.0 {
        wide @ 1..=4 => (wide - 1) * 4,
        narrow => narrow.checked_sub(8)?,
    };
    usize::try_from(unit).ok().filter(|unit| *unit < UNITS)
}
