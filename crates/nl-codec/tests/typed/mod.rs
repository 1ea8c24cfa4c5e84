//! Messages written as typed values, held against golden cases.

use std::path::Path;

use nl_codec::SliceCursor;
use nl_codec::msg::{Body, Family, Flags, Head, NftMsg, put_message};
use test_support::golden::{Golden, message_name, sorted, with_plain_list_types};

/// A value of an attribute struct with some of its attributes present.
macro_rules! make {
    ($name:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let mut made = $name::default();
        $( made.$field = Some($value); )*
        made
    }};
}
pub(crate) use make;

/// Flags of an `add`.
pub(crate) const ADD: Flags = Flags::CREATE;

/// One whole message in the family `ip`.
pub(crate) fn message<'a>(kind: NftMsg, flags: Flags, body: &impl Body<'a>) -> Vec<u8> {
    message_of(Family::IPV4, kind, flags, body)
}

/// One whole message.
pub(crate) fn message_of<'a>(
    family: Family,
    kind: NftMsg,
    flags: Flags,
    body: &impl Body<'a>,
) -> Vec<u8> {
    let mut buf = vec![0xa5; 4096];
    let mut cursor = SliceCursor::new(&mut buf);
    put_message(
        &mut cursor,
        &Head::nft(kind, family).with_flags(flags),
        body,
    )
    .unwrap();
    cursor.written().to_vec()
}

/// Compares with all messages of a golden case.
#[track_caller]
pub(crate) fn check(file: &str, case: &str, messages: &[Vec<u8>]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let golden = Golden::load(&folder.join(format!("{file}.txt"))).unwrap();
    let case = golden.case(case).unwrap();
    let wanted = case
        .messages
        .iter()
        .map(|message| with_plain_list_types(message));
    let wanted: Vec<_> = wanted.collect();
    assert_eq!(messages.len(), wanted.len(), "{}", case.name);
    for (ours, wanted) in messages.iter().zip(wanted) {
        // nft's requests for elements, and its flush of a set, have the set before the table.
        let name = message_name(ours);
        if ["GETSETELEM", "GETSETELEM_RESET"].contains(&name) || case.name == "flush" {
            assert_eq!(sorted(ours), sorted(&wanted), "{}", case.name);
        } else {
            assert_eq!(*ours, wanted, "{}", case.name);
        }
    }
}
