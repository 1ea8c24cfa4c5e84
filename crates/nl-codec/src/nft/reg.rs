//! Registers of the nf_tables virtual machine.

open_enum! {
    /// A register number as attributes carry it (`enum nft_registers`). The four 16-byte registers
    /// [`Self::R1`]–[`Self::R4`] are the same storage as sixteen 4-byte ones: `R1` = `REG32_00` to
    /// `REG32_03` and so on. Concatenated keys use consecutive 4-byte registers.
    pub struct Register(u32) {
        /// The verdict register; a lookup with this destination is a verdict map.
        VERDICT = 0, "0";
        /// 16 bytes, the same storage as 32-bit registers 8–11.
        R1 = 1, "1";
        /// 16 bytes, the same storage as 32-bit registers 12–15.
        R2 = 2, "2";
        /// 16 bytes, the same storage as 32-bit registers 16–19.
        R3 = 3, "3";
        /// 16 bytes, the same storage as 32-bit registers 20–23.
        R4 = 4, "4";
    }
}

impl Register {
    /// The `index`th 4-byte register (0–15), `None` beyond.
    #[must_use]
    pub const fn r32(index: u32) -> Option<Self> {
        if index < 16 {
            Some(Self(8 + index))
        } else {
            None
        }
    }
}
