//! Statements as expressions, in the registers and the order nft uses.
//!
//! Registers are counted in units of 4 bytes from 0; keys start at unit 0. nft calls every fourth
//! unit by the name of the 16-byte register that starts there, and so does [`register`].

use core::net::IpAddr;

use ipnet::IpNet;
use nft_batch::Batch;
use nl_codec::nft::expr::{
    AddrType, Bitwise, Cmp, CmpOp, Counter, Ct, CtKey, CtState, CtStatus, Dynset, DynsetOp, Fib,
    FibFlags, FibResult, Immediate, Lookup, LookupFlags, Masq, Meta, MetaKey, Nat, NatFlags,
    NfProto, Numgen, Payload, PayloadBase, Reject,
};
use nl_codec::nft::udata::Udata;
use nl_codec::nft::{self, Expr, Exprs, Register, Value, Verdict, VerdictCode};
use smallvec::SmallVec;
use svc_planner::plan::{Family, Field, Rule, Statement};

use super::bytes::{fits, protocol_number};
use super::{LowerError, nf_family};

/// `ICMP_PORT_UNREACH`.
const ICMP_PORT_UNREACH: u8 = 3;
/// `ICMPV6_PORT_UNREACH`.
const ICMPV6_PORT_UNREACH: u8 = 4;
/// Bytes of an interface name in a register, NUL-padded.
const IFNAMSIZ: usize = 16;

/// Appends a rule.
pub(super) fn add_rule(
    batch: &mut Batch,
    family: Family,
    table: &str,
    rule: &Rule,
) -> Result<(), LowerError> {
    let mut lowering = Lowering {
        batch,
        family,
        table,
        exprs: SmallVec::new(),
    };
    for statement in &rule.statements {
        lowering
            .statement(statement)
            .map_err(|fault| fault.in_chain(&rule.chain))?;
    }
    let Lowering { exprs, .. } = lowering;
    let comment = rule.comment.as_deref().map(Udata::with_comment);
    let comment = comment.transpose()?;
    let mut body = nft::Rule::new(table, &rule.chain, Exprs::new(&exprs));
    body.userdata = comment.as_ref().map(Udata::as_bytes);
    batch.add_rule(nf_family(family), &body)?;
    Ok(())
}

/// What is wrong with a statement.
enum Fault {
    Is(&'static str),
    Lower(LowerError),
}

impl Fault {
    fn in_chain(self, chain: &str) -> LowerError {
        match self {
            Self::Is(what) => LowerError::Rule {
                chain: chain.to_owned(),
                what,
            },
            Self::Lower(error) => error,
        }
    }
}

/// A rule being written.
struct Lowering<'b, 'r> {
    batch: &'b mut Batch,
    family: Family,
    table: &'r str,
    exprs: SmallVec<[Expr<'r>; 16]>,
}

impl<'r> Lowering<'_, 'r> {
    fn push(&mut self, expr: impl Into<Expr<'r>>) {
        self.exprs.push(expr.into());
    }

    fn statement(&mut self, statement: &'r Statement) -> Result<(), Fault> {
        let first = register(0);
        match statement {
            Statement::CtStateNew => self.ct_bits(CtKey::STATE, CtState::NEW.bits()),
            Statement::CtStatusDnat => self.ct_bits(CtKey::STATUS, CtStatus::DST_NAT.bits()),
            Statement::Saddr { prefix, invert } => self.prefix(Side::Source, prefix, *invert)?,
            Statement::Daddr { prefix, invert } => {
                self.prefix(Side::Destination, prefix, *invert)?;
            }
            Statement::Iifname {
                name,
                prefix,
                invert,
            } => self.iifname(name, *prefix, *invert)?,
            Statement::FibSaddrLocal => self.fib_local(FibFlags::SADDR),
            Statement::FibDaddrLocal => self.fib_local(FibFlags::DADDR),
            Statement::MarkSet { mask } => self.meta_any(MetaKey::MARK, *mask),
            Statement::MarkOr { bits } => self.meta_bits(MetaKey::MARK, !bits, *bits),
            Statement::MarkXor { bits } => self.meta_bits(MetaKey::MARK, u32::MAX, *bits),
            Statement::InSet { key, set, invert } => {
                let flags = invert.then_some(LookupFlags::INVERT);
                self.lookup(key, set, None, flags)?;
            }
            Statement::ScratchFromMap { key, map } => {
                self.lookup(key, map, Some(first), None)?;
                self.push(Meta::set(MetaKey::PRIORITY, first));
            }
            Statement::L4Proto(protocol) => {
                self.push(Meta::load(MetaKey::L4PROTO, first));
                self.push(Cmp::eq(first, Value::u8(protocol_number(*protocol))));
            }
            Statement::Counter => self.push(Counter::default()),
            Statement::ScratchReset => {
                self.push(Immediate::value(first, Value::u32_ne(0)));
                self.push(Meta::set(MetaKey::PRIORITY, first));
            }
            Statement::ScratchMask { mask } => self.meta_bits(MetaKey::PRIORITY, *mask, 0),
            Statement::ScratchOr { bits } => self.meta_bits(MetaKey::PRIORITY, !bits, *bits),
            Statement::ScratchSet { mask } => self.meta_any(MetaKey::PRIORITY, *mask),
            Statement::Stick { key, map, seconds } => {
                self.dynset(DynsetOp::UPDATE, key, map, Some(*seconds))?;
            }
            Statement::Unstick { key, map } => self.dynset(DynsetOp::DELETE, key, map, None)?,
            Statement::VerdictMap { key, map } => {
                self.lookup(key, map, Some(Register::VERDICT), None)?;
            }
            Statement::Dnat { key, map } => self.dnat(key, map)?,
            Statement::Jump(chain) => self.push(Immediate::verdict(Verdict::jump(chain))),
            Statement::Goto(chain) => self.push(Immediate::verdict(Verdict::goto(chain))),
            Statement::Drop => {
                self.push(Immediate::verdict(Verdict::code(VerdictCode::DROP)));
            }
            Statement::Reject => self.push(Reject::icmp(match self.family {
                Family::Ipv4 => ICMP_PORT_UNREACH,
                Family::Ipv6 => ICMPV6_PORT_UNREACH,
            })),
            Statement::Masquerade => {
                let mut masq = Masq::default();
                masq.flags = Some(NatFlags::PROTO_RANDOM_FULLY);
                self.push(masq);
            }
            _ => return Err(Fault::Is("statement is not known")),
        }
        Ok(())
    }

    fn ct_bits(&mut self, key: CtKey, bits: u32) {
        let first = register(0);
        self.push(Ct::load(key, first));
        self.bitwise(first, bits, 0);
        self.push(Cmp::neq(first, Value::u32_ne(0)));
    }

    /// `key` & `mask` != 0.
    fn meta_any(&mut self, key: MetaKey, mask: u32) {
        let first = register(0);
        self.push(Meta::load(key, first));
        self.bitwise(first, mask, 0);
        self.push(Cmp::neq(first, Value::u32_ne(0)));
    }

    /// `key` = (`key` & `mask`) ^ `xor`.
    fn meta_bits(&mut self, key: MetaKey, mask: u32, xor: u32) {
        let first = register(0);
        self.push(Meta::load(key, first));
        self.bitwise(first, mask, xor);
        self.push(Meta::set(key, first));
    }

    fn bitwise(&mut self, reg: Register, mask: u32, xor: u32) {
        let (mask, xor) = (Value::u32_ne(mask), Value::u32_ne(xor));
        self.push(Bitwise::mask_xor(reg, reg, 4, mask, xor));
    }

    fn fib_local(&mut self, flags: FibFlags) {
        let first = register(0);
        self.push(Fib::new(flags, FibResult::ADDRTYPE, first));
        self.push(Cmp::eq(first, Value::u32_ne(AddrType::LOCAL.0)));
    }

    /// An address inside a prefix. Whole bytes are compared as they are, as nft does.
    fn prefix(&mut self, side: Side, net: &IpNet, invert: bool) -> Result<(), Fault> {
        if !fits(self.family, net.addr()) {
            return Err(Fault::Is("prefix of the other family"));
        }
        let first = register(0);
        let (offset, len) = side.place(self.family);
        let op = if invert { CmpOp::NEQ } else { CmpOp::EQ };
        let bits = u32::from(net.prefix_len());
        let whole = bits > 0 && bits.is_multiple_of(8);
        let compared = if whole { bits / 8 } else { len };
        self.push(Payload::load(PayloadBase::NETWORK, offset, compared, first));
        if !whole {
            let mask = address_value(net.netmask(), len)?;
            let zero = address_value(unspecified(self.family), len)?;
            self.push(Bitwise::mask_xor(first, first, len, mask, zero));
        }
        let value = address_value(net.network(), compared)?;
        self.push(Cmp::new(op, first, value));
        Ok(())
    }

    fn iifname(&mut self, name: &str, prefix: bool, invert: bool) -> Result<(), Fault> {
        let mut bytes = [0; IFNAMSIZ];
        let room = bytes
            .get_mut(..name.len())
            .filter(|_| name.len() < IFNAMSIZ);
        let Some(room) = room.filter(|room| !room.is_empty()) else {
            return Err(Fault::Is("interface name is empty or longer than 15 bytes"));
        };
        room.copy_from_slice(name.as_bytes());
        let compared = if prefix { name.len() } else { IFNAMSIZ };
        let value = bytes.get(..compared).and_then(Value::inline);
        let value = value.ok_or(Fault::Is("interface name"))?;
        let op = if invert { CmpOp::NEQ } else { CmpOp::EQ };
        let first = register(0);
        self.push(Meta::load(MetaKey::IIFNAME, first));
        self.push(Cmp::new(op, first, value));
        Ok(())
    }

    /// Loads a key and looks it up.
    fn lookup(
        &mut self,
        key: &[Field],
        set: &'r str,
        dreg: Option<Register>,
        flags: Option<LookupFlags>,
    ) -> Result<(), Fault> {
        self.key(key)?;
        let by = self.batch.set(nf_family(self.family), self.table, set);
        let by = by.map_err(|error| Fault::Lower(error.into()))?;
        let mut lookup = Lookup::default();
        lookup.set = Some(by.name_in_expr(set));
        lookup.set_id = by.id();
        lookup.sreg = Some(register(0));
        lookup.dreg = dreg;
        lookup.flags = flags;
        self.push(lookup);
        Ok(())
    }

    /// Changes a row of a dynamic map whose data are the scratch.
    fn dynset(
        &mut self,
        op: DynsetOp,
        key: &[Field],
        map: &'r str,
        seconds: Option<u32>,
    ) -> Result<(), Fault> {
        let unit = self.key(key)?;
        if unit == REGISTER_UNITS {
            return Err(Fault::Is("no register is left for the data"));
        }
        let data = register(unit);
        let by = self.batch.set(nf_family(self.family), self.table, map);
        let by = by.map_err(|error| Fault::Lower(error.into()))?;
        self.push(Meta::load(MetaKey::PRIORITY, data));
        let mut dynset = Dynset::new(op, by.name_in_expr(map), register(0)).with_data(data);
        dynset.set_id = by.id();
        dynset.timeout_ms = seconds.map(|seconds| u64::from(seconds) * 1000);
        self.push(dynset);
        Ok(())
    }

    /// Loads a key's fields one behind the other; the unit behind them.
    fn key(&mut self, fields: &[Field]) -> Result<u32, Fault> {
        let mut unit = 0;
        for field in fields {
            let reg = register(unit);
            unit += match field {
                Field::Saddr => self.address(Side::Source, reg),
                Field::Daddr => self.address(Side::Destination, reg),
                Field::L4Proto => {
                    self.push(Meta::load(MetaKey::L4PROTO, reg));
                    1
                }
                Field::Dport => {
                    self.push(Payload::load(PayloadBase::TRANSPORT, 2, 2, reg));
                    1
                }
                Field::Scratch { mask } => {
                    self.push(Meta::load(MetaKey::PRIORITY, reg));
                    if *mask != u32::MAX {
                        self.bitwise(reg, *mask, 0);
                    }
                    1
                }
                Field::Random { modulus, offset } => {
                    let mut numgen = Numgen::random(*modulus, reg);
                    numgen.offset = Some(*offset);
                    self.push(numgen);
                    1
                }
                _ => return Err(Fault::Is("key field is not known")),
            };
            if unit > REGISTER_UNITS {
                return Err(Fault::Is("key is longer than the registers"));
            }
        }
        Ok(unit)
    }

    fn address(&mut self, side: Side, reg: Register) -> u32 {
        let (offset, len) = side.place(self.family);
        self.push(Payload::load(PayloadBase::NETWORK, offset, len, reg));
        len / 4
    }

    /// The scratch is reset behind the lookup, on whose miss the rule ends, and before the
    /// translation: nothing later on the packet's way sees our numbers as its priority.
    fn dnat(&mut self, key: &[Field], map: &'r str) -> Result<(), Fault> {
        self.lookup(key, map, Some(register(0)), None)?;
        let (proto, port_unit, spare) = match self.family {
            Family::Ipv4 => (NfProto::IPV4, 1, register(4)),
            Family::Ipv6 => (NfProto::IPV6, 4, register(8)),
        };
        self.push(Immediate::value(spare, Value::u32_ne(0)));
        self.push(Meta::set(MetaKey::PRIORITY, spare));
        self.push(Nat::dnat(proto, register(0), Some(register(port_unit))));
        Ok(())
    }
}

/// Registers hold 16 units of 4 bytes.
const REGISTER_UNITS: u32 = 16;

/// The register that starts at a unit.
fn register(unit: u32) -> Register {
    if unit.is_multiple_of(4) {
        return Register(Register::R1.0 + unit / 4);
    }
    Register::r32(unit).unwrap_or(Register::R1)
}

#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

impl Side {
    /// Offset and length of the address in the network header.
    const fn place(self, family: Family) -> (u32, u32) {
        match (family, self) {
            (Family::Ipv4, Self::Source) => (12, 4),
            (Family::Ipv4, Self::Destination) => (16, 4),
            (Family::Ipv6, Self::Source) => (8, 16),
            (Family::Ipv6, Self::Destination) => (24, 16),
        }
    }
}

const fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
        Family::Ipv6 => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
    }
}

/// The first `len` bytes of an address.
fn address_value<'r>(address: IpAddr, len: u32) -> Result<Value<'r>, Fault> {
    let fault = Fault::Is("prefix longer than its address");
    let Ok(len) = usize::try_from(len) else {
        return Err(fault);
    };
    let value = match address {
        IpAddr::V4(address) => address.octets().get(..len).and_then(Value::inline),
        IpAddr::V6(address) => address.octets().get(..len).and_then(Value::inline),
    };
    value.ok_or(fault)
}
