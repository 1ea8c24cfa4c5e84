//! `queue`: hand the packet to user space for a verdict (`net/netfilter/nft_queue.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Text, field};

bitflags::bitflags! {
    /// `NFT_QUEUE_FLAG_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct QueueFlags: u16 {
        /// Go on when nobody listens.
        const BYPASS = 1;
        /// Spread over the queues by CPU, not by flow.
        const CPU_FANOUT = 1 << 1;
        const _ = !0;
    }
}
flags_value!(QueueFlags);

attr_struct! {
    /// Queue (`NFTA_QUEUE_*`).
    pub struct Queue {
        /// First queue.
        1 => num: u16,
        /// Number of queues.
        2 => total: u16,
        /// See [`QueueFlags`].
        3 => flags: QueueFlags,
        /// Register that holds the queue number, 2 bytes in host order, instead of `num`.
        4 => sreg_qnum: Register,
    }
}

impl Queue {
    /// To `total` queues from `num` on.
    #[must_use]
    pub fn new(num: u16, total: u16, flags: QueueFlags) -> Self {
        Self {
            num: Some(num),
            total: Some(total),
            flags: (!flags.is_empty()).then_some(flags),
            ..Self::default()
        }
    }
}

impl Text for Queue {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(num) = self.num {
            write!(f, "num {num}")?;
            let last = num.wrapping_add(self.total.unwrap_or_default().saturating_sub(1));
            if last != num {
                write!(f, "-{last}")?;
            }
            f.write_str(" ")?;
        }
        field(f, "sreg_qnum", self.sreg_qnum)?;
        let flags = self.flags.unwrap_or(QueueFlags::empty());
        if flags.contains(QueueFlags::BYPASS) {
            f.write_str("bypass ")?;
        }
        if flags.contains(QueueFlags::CPU_FANOUT) {
            f.write_str("fanout ")?;
        }
        Ok(())
    }
}
