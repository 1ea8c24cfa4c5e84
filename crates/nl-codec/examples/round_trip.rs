//! Encodes a message into a buffer on the stack and reads it back, without a single allocation:
//! `cargo run -p nl-codec --example round_trip`.

use core::error::Error;

use nl_codec::SliceCursor;
use nl_codec::msg::{Family, Flags, Head, Messages, NftMsg};
use nl_codec::nft::Data;
use nl_codec::nft::elem::{ElemList, ElemRow, put_elems};

/// Address to port: two rows of a map.
const ROWS: [ElemRow<'static>; 2] = [
    ElemRow {
        key: &[192, 0, 2, 1],
        data: Some(&[0x1f, 0x90]),
    },
    ElemRow {
        key: &[192, 0, 2, 2],
        data: Some(&[0x00, 0x50]),
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut buf = [0; 512];
    let len = encode(&mut buf)?;
    let message = buf.get(..len).unwrap_or_default();
    println!("{len} bytes");
    decode(message, |address, port| println!("{address:?} → {port:?}"))?;
    Ok(())
}

/// Writes the rows as one message; returns its length.
pub(crate) fn encode(buf: &mut [u8]) -> Result<usize, nl_codec::EncodeError> {
    let head = Head::nft(NftMsg::NEW_SETELEM, Family::IPV4).with_flags(Flags::CREATE);
    let mut cursor = SliceCursor::new(buf);
    let mut rows = ROWS.into_iter().peekable();
    // What does not fit a list of 65,531 bytes is left in `rows`, for the next message.
    put_elems(
        &mut cursor,
        &head,
        &ElemList::named("web", "ports"),
        &mut rows,
    )?;
    Ok(cursor.written().len())
}

/// Hands each row to `each`. Everything is borrowed from `bytes`.
pub(crate) fn decode(
    bytes: &[u8],
    mut each: impl FnMut(&[u8], &[u8]),
) -> Result<(), nl_codec::DecodeError> {
    for message in Messages::new(bytes) {
        let list: ElemList<'_> = message?.nfnetlink()?.body()?;
        for elem in list.elems.iter().flatten() {
            let elem = elem?;
            let port = match &elem.data {
                Some(Data::Value(port)) => port.as_bytes(),
                _ => &[],
            };
            each(elem.key_bytes().unwrap_or_default(), port);
        }
    }
    Ok(())
}
