//! Rules: expressions read one after the other, with what each register holds in mind, and put in
//! nft's words.

use core::mem;

use nl_codec::msg::Family;
use nl_codec::nft::expr::{
    Bitwise, BitwiseOp, Cmp, CmpOp, Ct, CtKey, DynsetOp, Expr, FibFlags, FibResult, Lookup,
    LookupFlags, Meta, MetaKey, Nat, NatType, Numgen,
};
use nl_codec::nft::{Data, DataType, Register, Rule, Str, udata};
use nl_codec::{Attrs, DecodeError};

use super::catalog::{Catalog, SetShape};
use super::comparison::{compared, masked, sign};
use super::element::verdict;
use super::operand::{Operand, Registers};
use super::payload;
use super::statement::{log, nat_flags, reject, stateful};
use super::value::{self, duration};

/// The expressions and the comment of a rule.
#[must_use]
pub fn rule(family: Family, rule: &Rule<'_>, catalog: &Catalog) -> String {
    let mut reader = Reader {
        family,
        table: rule.table,
        catalog,
        registers: Registers::default(),
        protocol: None,
        out: Vec::new(),
    };
    for expr in rule.exprs.iter().flatten() {
        match expr {
            Ok(expr) => reader.expr(&expr),
            Err(error) => reader.out.push(format!("[ {error} ]")),
        }
    }
    let mut out = mem::take(&mut reader.out);
    if let Some(comment) = rule.userdata.and_then(udata::comment) {
        out.push(format!("comment \"{comment}\""));
    }
    out.join(" ")
}

struct Reader<'r> {
    family: Family,
    table: Option<Str<'r>>,
    catalog: &'r Catalog,
    registers: Registers,
    /// Layer 4 protocol that was matched.
    protocol: Option<u8>,
    out: Vec<String>,
}

impl Reader<'_> {
    fn expr(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Payload(it) => {
                let field = payload::field(self.family, self.protocol, it);
                if it.sreg.is_some() {
                    let value = self.value(it.sreg, field.kind);
                    self.say(format!("{} set {value}", field.name));
                } else {
                    let len = usize::try_from(it.len.unwrap_or_default()).unwrap_or_default();
                    let mut operand = Operand::new(field.name, field.kind, len);
                    operand.whole = field.whole;
                    self.registers.put(it.dreg, operand);
                }
            }
            Expr::Meta(it) => self.meta(it),
            Expr::Ct(it) => self.ct(it),
            Expr::Fib(it) => {
                let flags = it.flags.unwrap_or(FibFlags::empty());
                let known = [
                    (FibFlags::SADDR, "saddr"),
                    (FibFlags::DADDR, "daddr"),
                    (FibFlags::MARK, "mark"),
                    (FibFlags::IIF, "iif"),
                    (FibFlags::OIF, "oif"),
                ];
                let names: Vec<_> = known
                    .iter()
                    .filter(|(flag, _)| flags.contains(*flag))
                    .map(|(_, name)| *name)
                    .collect();
                let (what, kind, len) = match it.result {
                    Some(FibResult::ADDRTYPE) => ("type", DataType::FIB_ADDRTYPE, 4),
                    Some(FibResult::OIFNAME) => ("oifname", DataType::IFNAME, 16),
                    _ => ("oif", DataType::IFACE_INDEX, 4),
                };
                let text = format!("fib {} {what}", names.join(" . "));
                self.registers.put(it.dreg, Operand::new(text, kind, len));
            }
            Expr::Numgen(it) => self.numgen(it),
            Expr::Hash(it) => {
                let len = it.len.and_then(|len| usize::try_from(len).ok());
                let of = self.registers.key_text(it.sreg, len);
                let kind = it
                    .hash_type
                    .map_or_else(|| "jhash".to_owned(), |kind| kind.to_string());
                let text = format!("{kind} {of} mod {}", it.modulus.unwrap_or_default());
                self.registers
                    .put(it.dreg, Operand::new(text, DataType::MARK, 4));
            }
            Expr::Immediate(it) => match &it.data {
                Some(Data::Verdict(target)) => self.say(verdict(target)),
                Some(Data::Value(bytes)) => {
                    self.registers
                        .put(it.dreg, Operand::constant(bytes.as_bytes()));
                }
                _ => self.say(expr.to_string()),
            },
            Expr::Bitwise(it) => self.bitwise(it),
            Expr::Byteorder(it) => {
                if let Some(operand) = self.registers.first(it.sreg).cloned() {
                    self.registers.put(it.dreg, operand);
                }
            }
            Expr::Cmp(it) => self.cmp(it),
            Expr::Range(it) => {
                let (operand, kind) = self.operand(it.sreg);
                let bytes = |data: &Option<Data<'_>>| match data {
                    Some(Data::Value(bytes)) => value::plain(kind, bytes.as_bytes(), None),
                    _ => "?".to_owned(),
                };
                let not = match it.op {
                    Some(op) if op.0 != 0 => "!= ",
                    _ => "",
                };
                let (from, to) = (bytes(&it.from), bytes(&it.to));
                self.say(format!("{operand} {not}{from}-{to}"));
            }
            Expr::Lookup(it) => self.lookup(it),
            Expr::Dynset(it) => {
                let shape = self.shape(it.set, it.set_id);
                let len = shape.map(|shape| shape.key_len);
                let mut inner = self.registers.key_text(it.sreg_key, len);
                if let Some(timeout) = it.timeout_ms.filter(|timeout| *timeout > 0) {
                    inner += &format!(" timeout {}", duration(timeout));
                }
                if it.sreg_data.is_some() {
                    inner += &format!(" : {}", self.registers.key_text(it.sreg_data, None));
                }
                let op = it.op.unwrap_or(DynsetOp::ADD);
                let name = set_name(it.set, it.set_id);
                let mut text = format!("{op} @{name} {{ {inner} }}");
                let exprs = it.exprs.as_ref().map(|exprs| exprs.exprs());
                let exprs = exprs
                    .iter()
                    .flat_map(|list| list.iter())
                    .filter_map(Result::ok);
                let single = it.expr.and_then(|expr| expr.expr().ok());
                for expr in single.into_iter().chain(exprs) {
                    text += &format!(" {}", stateful(&expr));
                }
                self.say(text);
            }
            Expr::Objref(it) => {
                let kind = it
                    .obj_type
                    .map_or_else(|| "object".to_owned(), |kind| kind.to_string());
                let text = match it.name {
                    Some(name) => format!("{kind} name \"{name}\""),
                    None => {
                        let set = it.set.map(|set| set.0);
                        let key = self.registers.key_text(it.sreg, None);
                        format!("{kind} name {key} map @{}", set_name(set, it.set_id))
                    }
                };
                self.say(text);
            }
            Expr::Nat(it) => self.nat(it),
            Expr::Masq(it) => {
                let ports = self.ports(it.proto_min, it.proto_max);
                let to = if ports.is_empty() {
                    ports
                } else {
                    format!(" to :{ports}")
                };
                self.say(format!("masquerade{to}{}", nat_flags(it.flags)));
            }
            Expr::Redir(it) => {
                let ports = self.ports(it.proto_min, it.proto_max);
                let to = if ports.is_empty() {
                    ports
                } else {
                    format!(" to :{ports}")
                };
                self.say(format!("redirect{to}{}", nat_flags(it.flags)));
            }
            Expr::Reject(it) => self.say(reject(it)),
            Expr::Log(it) => self.say(log(it)),
            Expr::Notrack(_) => self.say("notrack".to_owned()),
            Expr::Queue(it) => {
                let num = it.num.unwrap_or_default();
                self.say(format!("queue num {num}"));
            }
            Expr::FlowOffload(it) => {
                self.say(format!("flow add @{}", set_name(it.table, None)));
            }
            Expr::Counter(_) | Expr::Limit(_) | Expr::Quota(_) | Expr::Connlimit(_) => {
                self.say(stateful(expr));
            }
            Expr::Unknown { name, data } => self.say(extension(*name, data)),
            other => self.say(other.to_string()),
        }
    }

    fn say(&mut self, text: String) {
        self.out.push(text);
    }

    /// What a register holds, and its type.
    fn operand(&self, register: Option<Register>) -> (String, DataType) {
        match self.registers.first(register) {
            Some(operand) => (operand.text.clone(), operand.kind),
            None => (self.registers.key_text(register, None), DataType(0)),
        }
    }

    /// What a register holds, where a value of type `kind` is wanted.
    fn value(&self, register: Option<Register>, kind: DataType) -> String {
        match self.registers.first(register) {
            Some(operand) => operand.shown_as(kind),
            None => self.registers.key_text(register, None),
        }
    }

    fn shape(&self, set: Option<Str<'_>>, id: Option<u32>) -> Option<SetShape> {
        let table = self.table?;
        let name = set.map(Str::as_bytes);
        self.catalog.find(self.family, table.as_bytes(), name, id)
    }

    fn meta(&mut self, meta: &Meta) {
        let key = meta.key.unwrap_or(MetaKey(u32::MAX));
        let (kind, len) = match key {
            MetaKey::L4PROTO => (DataType::INET_PROTO, 1),
            MetaKey::NFPROTO => (DataType::NFPROTO, 1),
            MetaKey::PROTOCOL => (DataType::ETHER_TYPE, 2),
            MetaKey::MARK => (DataType::MARK, 4),
            MetaKey::PRIORITY => (DataType::CLASSID, 4),
            MetaKey::IIFNAME | MetaKey::OIFNAME | MetaKey::BRI_IIFNAME | MetaKey::BRI_OIFNAME => {
                (DataType::IFNAME, 16)
            }
            MetaKey::IIF | MetaKey::OIF => (DataType::IFACE_INDEX, 4),
            MetaKey::SKUID => (DataType::UID, 4),
            MetaKey::SKGID => (DataType::GID, 4),
            MetaKey::PKTTYPE => (DataType::PKT_TYPE, 1),
            MetaKey::IIFTYPE | MetaKey::OIFTYPE => (DataType::IFACE_TYPE, 2),
            _ => (DataType::INTEGER, 4),
        };
        // nft leaves the word out where it needs none.
        let name = match key {
            MetaKey::IIF | MetaKey::OIF | MetaKey::IIFNAME | MetaKey::OIFNAME => key.to_string(),
            _ => format!("meta {key}"),
        };
        if meta.sreg.is_some() {
            let value = self.value(meta.sreg, kind);
            self.say(format!("{name} set {value}"));
        } else {
            self.registers.put(meta.dreg, Operand::new(name, kind, len));
        }
    }

    fn ct(&mut self, ct: &Ct) {
        let key = ct.key.unwrap_or(CtKey(u32::MAX));
        let v6 = self.family == Family::IPV6;
        let (kind, len) = match key {
            CtKey::STATE => (DataType::CT_STATE, 4),
            CtKey::STATUS => (DataType::CT_STATUS, 4),
            CtKey::DIRECTION => (DataType::CT_DIR, 1),
            CtKey::MARK => (DataType::MARK, 4),
            CtKey::PROTOCOL => (DataType::INET_PROTO, 1),
            CtKey::SRC | CtKey::DST if v6 => (DataType::IPV6_ADDR, 16),
            CtKey::SRC | CtKey::DST | CtKey::SRC_IP | CtKey::DST_IP => (DataType::IPV4_ADDR, 4),
            CtKey::SRC_IP6 | CtKey::DST_IP6 => (DataType::IPV6_ADDR, 16),
            CtKey::PROTO_SRC | CtKey::PROTO_DST => (DataType::INET_SERVICE, 2),
            CtKey::LABELS => (DataType::CT_LABEL, 16),
            CtKey::HELPER => (DataType::STRING, 16),
            CtKey::ZONE => (DataType::INTEGER, 2),
            _ => (DataType::INTEGER, 4),
        };
        let direction = ct
            .direction
            .map_or(String::new(), |direction| format!("{direction} "));
        let name = format!("ct {direction}{key}");
        if ct.sreg.is_some() {
            let value = self.value(ct.sreg, kind);
            self.say(format!("{name} set {value}"));
        } else {
            self.registers.put(ct.dreg, Operand::new(name, kind, len));
        }
    }

    fn numgen(&mut self, numgen: &Numgen) {
        let kind = numgen
            .numgen_type
            .map_or_else(|| "?".to_owned(), |kind| kind.to_string());
        let modulus = numgen.modulus.unwrap_or_default();
        let mut text = format!("numgen {kind} mod {modulus}");
        if let Some(offset) = numgen.offset.filter(|offset| *offset > 0) {
            text += &format!(" offset {offset}");
        }
        self.registers
            .put(numgen.dreg, Operand::new(text, DataType::MARK, 4));
    }

    fn bitwise(&mut self, bitwise: &Bitwise<'_>) {
        let (text, kind) = self.operand(bitwise.sreg);
        let len = usize::try_from(bitwise.len.unwrap_or(4)).unwrap_or(4);
        let mut operand = match (bitwise.op, &bitwise.mask, &bitwise.xor) {
            (None | Some(BitwiseOp::MASK_XOR), Some(Data::Value(mask)), Some(Data::Value(xor))) => {
                masked(&text, kind, len, mask.as_bytes(), xor.as_bytes())
            }
            (Some(op), ..) => {
                let second = match (&bitwise.data, bitwise.sreg2) {
                    (Some(Data::Value(bits)), _) => {
                        value::plain(DataType::UID, bits.as_bytes(), None)
                    }
                    (_, Some(register)) => self.operand(Some(register)).0,
                    _ => "?".to_owned(),
                };
                Operand::new(format!("{text} {op} {second}"), kind, len)
            }
            _ => Operand::new(format!("{text} & ?"), kind, len),
        };
        operand.order = self.registers.first(bitwise.sreg).and_then(|it| it.order);
        self.registers.put(bitwise.dreg, operand);
    }

    fn cmp(&mut self, cmp: &Cmp<'_>) {
        let Some(Data::Value(bytes)) = &cmp.data else {
            self.say(Expr::Cmp(*cmp).to_string());
            return;
        };
        let bytes = bytes.as_bytes();
        let op = cmp.op.unwrap_or(CmpOp::EQ);
        let parts = self.registers.key(cmp.sreg, Some(bytes.len()));
        if parts.len() > 1 {
            let mut rest = bytes;
            let mut values = Vec::new();
            for part in &parts {
                let value = rest.get(..part.len).unwrap_or(rest);
                values.push(value::plain(part.kind, value, part.order));
                rest = rest.get(part.len.next_multiple_of(4)..).unwrap_or_default();
            }
            let key = self.registers.key_text(cmp.sreg, Some(bytes.len()));
            let sign = sign(op);
            self.say(format!("{key} {sign}{}", values.join(" . ")));
            return;
        }
        let Some(operand) = self.registers.first(cmp.sreg).cloned() else {
            self.say(Expr::Cmp(*cmp).to_string());
            return;
        };
        if op == CmpOp::EQ && ["meta l4proto", "ip protocol"].contains(&operand.text.as_str()) {
            self.protocol = bytes.first().copied();
        }
        let text = compared(&operand, op, bytes);
        self.say(text);
    }

    fn lookup(&mut self, lookup: &Lookup<'_>) {
        let shape = self.shape(lookup.set, lookup.set_id);
        let len = shape.map(|shape| shape.key_len);
        let key = self.registers.key_text(lookup.sreg, len);
        let name = set_name(lookup.set, lookup.set_id);
        let inverted = lookup
            .flags
            .is_some_and(|flags| flags.contains(LookupFlags::INVERT));
        match lookup.dreg {
            None => {
                let not = if inverted { "!= " } else { "" };
                self.say(format!("{key} {not}@{name}"));
            }
            Some(Register::VERDICT) => self.say(format!("{key} vmap @{name}")),
            Some(register) => {
                let kind = shape.and_then(|shape| shape.data).unwrap_or(DataType(0));
                let len = kind.key_len().and_then(|len| usize::try_from(len).ok());
                let operand = Operand::new(format!("{key} map @{name}"), kind, len.unwrap_or(4));
                self.registers.put(Some(register), operand);
            }
        }
    }

    fn nat(&mut self, nat: &Nat) {
        let kind = match nat.nat_type {
            Some(NatType::SNAT) => "snat",
            Some(NatType::DNAT) => "dnat",
            _ => "nat",
        };
        let v6 = nat.family.is_some_and(|family| family.0 == 10);
        let address = if v6 {
            DataType::IPV6_ADDR
        } else {
            DataType::IPV4_ADDR
        };
        let mut to = match nat.addr_min {
            Some(register) => self.value(Some(register), address),
            None => String::new(),
        };
        if let Some(register) = nat.addr_max.filter(|max| Some(*max) != nat.addr_min) {
            to += &format!("-{}", self.value(Some(register), address));
        }
        // A map's data fill the registers of address and port.
        let from_map = nat
            .addr_min
            .and_then(|register| self.registers.first(Some(register)))
            .is_some_and(|operand| operand.kind.is_concat());
        if !from_map {
            let ports = self.ports(nat.proto_min, nat.proto_max);
            if !ports.is_empty() {
                if v6 && nat.addr_min.is_some() {
                    to = format!("[{to}]");
                }
                to += &format!(":{ports}");
            }
        }
        self.say(format!("{kind} to {to}{}", nat_flags(nat.flags)));
    }

    fn ports(&self, min: Option<Register>, max: Option<Register>) -> String {
        let Some(register) = min else {
            return String::new();
        };
        let from = self.value(Some(register), DataType::INET_SERVICE);
        match max.filter(|max| *max != register) {
            Some(max) => format!("{from}-{}", self.value(Some(max), DataType::INET_SERVICE)),
            None => from,
        }
    }
}

fn set_name(name: Option<Str<'_>>, id: Option<u32>) -> String {
    match (name, id) {
        (Some(name), _) if !name.as_bytes().is_empty() => name.to_string(),
        (_, Some(id)) => format!("(id {id})"),
        _ => "?".to_owned(),
    }
}

/// A match or target of xtables (iptables-nft, ebtables-nft): its name, revision and size
/// (`NFTA_MATCH_*`, `NFTA_TARGET_*`: 1 name, 2 revision, 3 data).
fn extension(name: Str<'_>, data: &[u8]) -> String {
    if !matches!(name.as_bytes(), b"match" | b"target") {
        return format!("[ {name} ({} bytes) ]", data.len());
    }
    let read = || -> Result<String, DecodeError> {
        let (mut extension, mut revision, mut size) = (Str::new(b"?"), 0, 0);
        for attr in Attrs::new(data) {
            let attr = attr?;
            match attr.kind {
                1 => extension = attr.value("extension")?,
                2 => revision = attr.value("revision")?,
                3 => size = attr.payload.len(),
                _ => {}
            }
        }
        Ok(format!(
            "xt {name} \"{extension}\" (revision {revision}, {size} bytes)"
        ))
    };
    read().unwrap_or_else(|error| format!("[ {name} {error} ]"))
}
