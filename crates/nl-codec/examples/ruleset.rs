//! Builds a transaction by hand, in which a map decides where connections go, and prints its rule
//! as `nft --debug=netlink` does, then all bytes: `cargo run -p nl-codec --example ruleset`.
//!
//! ```text
//! table ip web {
//!     map backends { type ipv4_addr : ipv4_addr . inet_service; comment "who serves what" }
//!     chain in {
//!         type nat hook prerouting priority dstnat;
//!         dnat ip to ip daddr map @backends
//!     }
//! }
//! ```

use core::error::Error;

use nl_codec::SliceCursor;
use nl_codec::msg::{Family, Flags, Head, NftMsg, put_batch_begin, put_batch_end, put_message};
use nl_codec::nft::dtype::ByteOrder;
use nl_codec::nft::elem::{ElemList, ElemRow, put_elems};
use nl_codec::nft::expr::{Expr, Exprs, Lookup, Nat, NfProto, Payload, PayloadBase};
use nl_codec::nft::set::{Set, SetFlags};
use nl_codec::nft::udata::SetInfo;
use nl_codec::nft::{Chain, ChainHook, DataType, Hook, Register, Rule, Table};
use nl_codec::pretty::RuleText;

const FAMILY: Family = Family::IPV4;
const TABLE: &str = "web";
const MAP: &str = "backends";
/// By which the elements find the map that is made in the same transaction.
const MAP_ID: u32 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    run()
}

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let endpoint = DataType::concat(&[DataType::IPV4_ADDR, DataType::INET_SERVICE]);
    let endpoint = endpoint.ok_or("no such type")?;
    let mut info = SetInfo::default();
    info.key_byte_order = Some(ByteOrder::NETWORK);
    info.comment = Some("who serves what".into());
    let userdata = info.encode()?;
    let mut map = Set::named(TABLE, MAP);
    map.id = Some(MAP_ID);
    map.flags = Some(SetFlags::MAP);
    (map.key_type, map.key_len) = (Some(DataType::IPV4_ADDR), Some(4));
    (map.data_type, map.data_len) = (Some(endpoint), endpoint.key_len());
    map.userdata = Some(userdata.as_bytes());
    // Fields of a concatenation are padded to 4 bytes each.
    let row = ElemRow {
        key: &[192, 0, 2, 1],
        data: Some(&[10, 0, 0, 1, 0x1f, 0x90, 0, 0]),
    };

    let mut chain = Chain::named(TABLE, "in").hooked("nat", ChainHook::new(Hook::PREROUTING, -100));
    chain.policy = Some(nl_codec::nft::chain::Policy::ACCEPT);
    // The address goes to the first 4-byte register; the map's data take two from there on.
    let (addr, port) = (Register::R1, Register::r32(1));
    let exprs = [
        Expr::from(Payload::load(PayloadBase::NETWORK, 16, 4, addr)),
        Lookup::map(MAP, addr, addr).with_id(MAP_ID).into(),
        Nat::dnat(NfProto::IPV4, addr, port).into(),
    ];
    let rule = Rule::new(TABLE, "in", Exprs::new(&exprs));

    let mut buf = [0; 2048];
    let mut cursor = SliceCursor::new(&mut buf);
    let head = |msg, seq| {
        let flags = Flags::CREATE | Flags::APPEND | Flags::ACK;
        Head::nft(msg, FAMILY).with_flags(flags).with_seq(seq)
    };
    put_batch_begin(&mut cursor, 0, None)?;
    put_message(
        &mut cursor,
        &head(NftMsg::NEW_TABLE, 1),
        &Table::named(TABLE),
    )?;
    put_message(&mut cursor, &head(NftMsg::NEW_CHAIN, 2), &chain)?;
    put_message(&mut cursor, &head(NftMsg::NEW_SET, 3), &map)?;
    let list = ElemList::with_id(TABLE, MAP_ID);
    let mut rows = [row].into_iter().peekable();
    while rows.peek().is_some() {
        put_elems(&mut cursor, &head(NftMsg::NEW_SETELEM, 4), &list, &mut rows)?;
    }
    put_message(&mut cursor, &head(NftMsg::NEW_RULE, 5), &rule)?;
    put_batch_end(&mut cursor, 6, Flags::empty())?;

    let family = FAMILY;
    let rule = &rule;
    println!("{}", RuleText { family, rule });
    for line in cursor.written().chunks(16) {
        let bytes: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{}", bytes.join(" "));
    }
    Ok(())
}
