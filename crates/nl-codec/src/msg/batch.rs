//! The messages around an nf_tables transaction (`nfnetlink_rcv_batch`).

use super::{Family, Flags, Head, Message, MsgType, Subsystem, put_message};
use crate::{EncodeError, Encoder};

attr_struct! {
    /// Attributes of the batch's first message (`NFNL_BATCH_*`).
    pub struct BatchBegin {
        /// Commit only if this is the current generation; else the batch fails with ERESTART.
        1 => generation: u32,
    }
}

/// Appends the message that opens a transaction, with the generation it shall be based on, if any.
///
/// # Errors
/// See [`EncodeError`].
pub fn put_batch_begin<E: Encoder>(
    enc: &mut E,
    seq: u32,
    generation: Option<u32>,
) -> Result<(), EncodeError> {
    let body = BatchBegin { generation };
    put_message(enc, &head(MsgType::BATCH_BEGIN, seq), &body)
}

/// Appends the message that closes a transaction. `flags` may hold [`Flags::ACK`]: kernels since
/// 6.10 acknowledge the commit then, older ones ignore it.
///
/// # Errors
/// See [`EncodeError`].
pub fn put_batch_end<E: Encoder>(enc: &mut E, seq: u32, flags: Flags) -> Result<(), EncodeError> {
    Message::begin(enc, &head(MsgType::BATCH_END, seq).with_flags(flags))?.end()
}

fn head(kind: MsgType, seq: u32) -> Head {
    let mut head = Head::new(kind, Family::UNSPEC).with_seq(seq);
    head.res_id = u16::from(Subsystem::NFTABLES.0);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SliceCursor;
    use crate::msg::Messages;

    #[test]
    fn begin_and_end_round_trip() {
        let mut buf = [0; 128];
        let mut cursor = SliceCursor::new(&mut buf);
        put_batch_begin(&mut cursor, 5, None).unwrap();
        put_batch_begin(&mut cursor, 6, Some(0x0102_0304)).unwrap();
        put_batch_end(&mut cursor, 7, Flags::ACK).unwrap();
        assert_eq!(cursor.position(), 20 + 28 + 20);
        // res_id is in network order.
        assert_eq!(cursor.written()[16..20], [0, 0, 0, 10]);
        assert_eq!(cursor.written()[44..48], [1, 2, 3, 4]);

        let mut messages = Messages::new(cursor.written()).map(|m| m.unwrap().nfnetlink().unwrap());
        let first = messages.next().unwrap();
        assert_eq!(first.header.kind, MsgType::BATCH_BEGIN);
        assert_eq!(first.nfgen.res_id, 10);
        assert_eq!(first.body::<BatchBegin>().unwrap().generation, None);
        let second = messages.next().unwrap();
        let body: BatchBegin = second.body().unwrap();
        assert_eq!(body.generation, Some(0x0102_0304));
        let third = messages.next().unwrap();
        assert_eq!(third.header.kind, MsgType::BATCH_END);
        assert_eq!(third.header.flags, Flags::REQUEST | Flags::ACK);
        assert!(messages.next().is_none());
    }
}
