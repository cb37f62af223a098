//! The instructions of x86-64 for vectors, by operation and type.
//!
//! AVX-512 has them for all types; of AVX2 only those for real numbers are used.

use iced_x86::Code;
use syncline_store::ElementType::{self, *};

use crate::described::graph::{Binary, Comparison, Unary};
use crate::rule::Overflow;
use crate::rule::loops::Instructions;

/// The instructions for vectors of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set {
    pub(super) wide: bool,
    pub(super) element: ElementType,
    overflow: Overflow,
}

/// An operation on one value.
#[derive(Clone, Copy, Debug)]
pub(super) enum One {
    /// An instruction with one operand.
    Of(Code),
    /// An instruction that combines the value with bits, of which the highest are those of a value.
    With(Code, u64),
    /// An instruction that subtracts the value from 0.
    FromZero(Code),
    /// An instruction with one operand and a number that says how.
    How(Code, u32),
}

impl Set {
    /// Returns the instructions for a type; `None` if there are none.
    pub(super) fn new(
        instructions: Instructions,
        element: ElementType,
        overflow: Overflow,
    ) -> Option<Self> {
        // Bytes of bool are only compared and chosen.
        let element = if element == Bool { Uint8 } else { element };
        let wide = match instructions {
            _ if element == Float16 => return None,
            Instructions::Avx512 => true,
            Instructions::Avx2 if element.is_real() => false,
            _ => return None,
        };
        Some(Set { wide, element, overflow })
    }

    /// Returns the bytes of a vector.
    pub(super) const fn vector(&self) -> usize {
        if self.wide { 64 } else { 32 }
    }

    /// Returns the code to load a vector, and the one to store it.
    pub(super) fn moves(&self) -> (Code, Code) {
        use Code::*;
        match (self.wide, self.element) {
            (false, Float64) => (VEX_Vmovupd_ymm_ymmm256, VEX_Vmovupd_ymmm256_ymm),
            (false, _) => (VEX_Vmovups_ymm_ymmm256, VEX_Vmovups_ymmm256_ymm),
            (true, Float64) => (EVEX_Vmovupd_zmm_k1z_zmmm512, EVEX_Vmovupd_zmmm512_k1z_zmm),
            (true, Float32) => (EVEX_Vmovups_zmm_k1z_zmmm512, EVEX_Vmovups_zmmm512_k1z_zmm),
            (true, Uint8 | Int8 | Bool) => {
                (EVEX_Vmovdqu8_zmm_k1z_zmmm512, EVEX_Vmovdqu8_zmmm512_k1z_zmm)
            }
            (true, Int16 | Uint16 | Float16) => {
                (EVEX_Vmovdqu16_zmm_k1z_zmmm512, EVEX_Vmovdqu16_zmmm512_k1z_zmm)
            }
            (true, Int32 | Uint32) => {
                (EVEX_Vmovdqu32_zmm_k1z_zmmm512, EVEX_Vmovdqu32_zmmm512_k1z_zmm)
            }
            (true, Int64) => (EVEX_Vmovdqu64_zmm_k1z_zmmm512, EVEX_Vmovdqu64_zmmm512_k1z_zmm),
        }
    }

    /// Returns the codes of AVX2 to load, and to store, what a mask says.
    pub(super) fn masked(&self) -> (Code, Code) {
        use Code::*;
        match self.element {
            Float64 => (VEX_Vmaskmovpd_ymm_ymm_m256, VEX_Vmaskmovpd_m256_ymm_ymm),
            _ => (VEX_Vmaskmovps_ymm_ymm_m256, VEX_Vmaskmovps_m256_ymm_ymm),
        }
    }

    pub(super) fn unary(&self, op: Unary) -> Option<One> {
        use Code::*;
        let wrapping = self.overflow == Overflow::Wrapping;
        let sign = 1 << 63;
        // Down, without an exception if the value is no whole number.
        let down = 0x9;
        Some(match (op, self.wide, self.element) {
            (Unary::Neg, true, Float64 | Float32) => {
                One::With(EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, sign)
            }
            (Unary::Abs, true, Float64 | Float32) => {
                One::With(EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64, !sign)
            }
            (Unary::Neg, false, Float64) => One::With(VEX_Vxorpd_ymm_ymm_ymmm256, sign),
            (Unary::Neg, false, _) => One::With(VEX_Vxorps_ymm_ymm_ymmm256, sign),
            (Unary::Abs, false, Float64) => One::With(VEX_Vandpd_ymm_ymm_ymmm256, !sign),
            (Unary::Abs, false, _) => One::With(VEX_Vandps_ymm_ymm_ymmm256, !sign),
            (Unary::Sqrt, true, Float64) => One::Of(EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er),
            (Unary::Sqrt, true, Float32) => One::Of(EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er),
            (Unary::Sqrt, false, Float64) => One::Of(VEX_Vsqrtpd_ymm_ymmm256),
            (Unary::Sqrt, false, Float32) => One::Of(VEX_Vsqrtps_ymm_ymmm256),
            (Unary::Floor, true, Float64) => {
                One::How(EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae, down)
            }
            (Unary::Floor, true, Float32) => {
                One::How(EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, down)
            }
            (Unary::Floor, false, Float64) => One::How(VEX_Vroundpd_ymm_ymmm256_imm8, down),
            (Unary::Floor, false, Float32) => One::How(VEX_Vroundps_ymm_ymmm256_imm8, down),
            (Unary::Neg, ..) => One::FromZero(self.binary(Binary::Sub)?),
            (Unary::Abs, _, Int8) if wrapping => One::Of(EVEX_Vpabsb_zmm_k1z_zmmm512),
            (Unary::Abs, _, Int16) if wrapping => One::Of(EVEX_Vpabsw_zmm_k1z_zmmm512),
            (Unary::Abs, _, Int32) if wrapping => One::Of(EVEX_Vpabsd_zmm_k1z_zmmm512b32),
            (Unary::Abs, _, Int64) if wrapping => One::Of(EVEX_Vpabsq_zmm_k1z_zmmm512b64),
            _ => return None,
        })
    }

    /// Returns the instruction of an operation on two values.
    pub(super) fn binary(&self, op: Binary) -> Option<Code> {
        use Binary::{Add, Div, Max, Min, Mul, Rem, Sub};
        use Code::*;
        if self.element.is_real() {
            return Some(match (op, self.wide, self.element) {
                (Add, true, Float64) => EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er,
                (Add, true, _) => EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
                (Add, false, Float64) => VEX_Vaddpd_ymm_ymm_ymmm256,
                (Add, false, _) => VEX_Vaddps_ymm_ymm_ymmm256,
                (Sub, true, Float64) => EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er,
                (Sub, true, _) => EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
                (Sub, false, Float64) => VEX_Vsubpd_ymm_ymm_ymmm256,
                (Sub, false, _) => VEX_Vsubps_ymm_ymm_ymmm256,
                (Mul, true, Float64) => EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er,
                (Mul, true, _) => EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
                (Mul, false, Float64) => VEX_Vmulpd_ymm_ymm_ymmm256,
                (Mul, false, _) => VEX_Vmulps_ymm_ymm_ymmm256,
                (Div, true, Float64) => EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er,
                (Div, true, _) => EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
                (Div, false, Float64) => VEX_Vdivpd_ymm_ymm_ymmm256,
                (Div, false, _) => VEX_Vdivps_ymm_ymm_ymmm256,
                (Min, true, Float64) => EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae,
                (Min, true, _) => EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
                (Min, false, Float64) => VEX_Vminpd_ymm_ymm_ymmm256,
                (Min, false, _) => VEX_Vminps_ymm_ymm_ymmm256,
                (Max, true, Float64) => EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae,
                (Max, true, _) => EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
                (Max, false, Float64) => VEX_Vmaxpd_ymm_ymm_ymmm256,
                (Max, false, _) => VEX_Vmaxps_ymm_ymm_ymmm256,
                (Rem, ..) => return None,
            });
        }
        let saturating = self.overflow == Overflow::Saturating;
        Some(match (op, self.element) {
            (Add, Uint8) if saturating => EVEX_Vpaddusb_zmm_k1z_zmm_zmmm512,
            (Add, Int8) if saturating => EVEX_Vpaddsb_zmm_k1z_zmm_zmmm512,
            (Sub, Int8) if saturating => EVEX_Vpsubsb_zmm_k1z_zmm_zmmm512,
            (Add, Uint16) if saturating => EVEX_Vpaddusw_zmm_k1z_zmm_zmmm512,
            (Add, Int16) if saturating => EVEX_Vpaddsw_zmm_k1z_zmm_zmmm512,
            (Sub, Uint8) if saturating => EVEX_Vpsubusb_zmm_k1z_zmm_zmmm512,
            (Sub, Uint16) if saturating => EVEX_Vpsubusw_zmm_k1z_zmm_zmmm512,
            (Sub, Int16) if saturating => EVEX_Vpsubsw_zmm_k1z_zmm_zmmm512,
            (Min, Uint8) => EVEX_Vpminub_zmm_k1z_zmm_zmmm512,
            (Min, Int8) => EVEX_Vpminsb_zmm_k1z_zmm_zmmm512,
            (Max, Int8) => EVEX_Vpmaxsb_zmm_k1z_zmm_zmmm512,
            (Min, Uint32) => EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
            (Max, Uint32) => EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
            (Min, Uint16) => EVEX_Vpminuw_zmm_k1z_zmm_zmmm512,
            (Min, Int16) => EVEX_Vpminsw_zmm_k1z_zmm_zmmm512,
            (Min, Int32) => EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
            (Min, Int64) => EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64,
            (Max, Uint8) => EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512,
            (Max, Uint16) => EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512,
            (Max, Int16) => EVEX_Vpmaxsw_zmm_k1z_zmm_zmmm512,
            (Max, Int32) => EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
            (Max, Int64) => EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64,
            _ if saturating => return None,
            (Add, Uint8 | Int8) => EVEX_Vpaddb_zmm_k1z_zmm_zmmm512,
            (Add, Uint16 | Int16) => EVEX_Vpaddw_zmm_k1z_zmm_zmmm512,
            (Add, Int32 | Uint32) => EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
            (Add, Int64) => EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64,
            (Sub, Uint8 | Int8) => EVEX_Vpsubb_zmm_k1z_zmm_zmmm512,
            (Sub, Uint16 | Int16) => EVEX_Vpsubw_zmm_k1z_zmm_zmmm512,
            (Sub, Int32 | Uint32) => EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
            (Sub, Int64) => EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64,
            (Mul, Uint16 | Int16) => EVEX_Vpmullw_zmm_k1z_zmm_zmmm512,
            (Mul, Int32 | Uint32) => EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
            (Mul, Int64) => EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64,
            _ => return None,
        })
    }

    /// Returns the instruction that compares, the number that says how, and the one that chooses.
    pub(super) fn choice(&self, comparison: Comparison) -> (Code, u32, Code) {
        use Code::*;
        // The numbers of the processor: comparisons of real numbers are ordered and quiet.
        let real = match comparison {
            Comparison::Equal => 0x00,
            Comparison::Less => 0x11,
            Comparison::AtMost => 0x12,
        };
        let whole = real & 3;
        match (self.wide, self.element) {
            (false, Float64) => {
                (VEX_Vcmppd_ymm_ymm_ymmm256_imm8, real, VEX_Vblendvpd_ymm_ymm_ymmm256_ymm)
            }
            (false, _) => {
                (VEX_Vcmpps_ymm_ymm_ymmm256_imm8, real, VEX_Vblendvps_ymm_ymm_ymmm256_ymm)
            }
            (true, Float64) => (
                EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae,
                real,
                EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64,
            ),
            (true, Float32) => (
                EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
                real,
                EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32,
            ),
            (true, Int8) => {
                (EVEX_Vpcmpb_kr_k1_zmm_zmmm512_imm8, whole, EVEX_Vpblendmb_zmm_k1z_zmm_zmmm512)
            }
            (true, Uint32) => (
                EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
                whole,
                EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32,
            ),
            (true, Uint8 | Bool) => {
                (EVEX_Vpcmpub_kr_k1_zmm_zmmm512_imm8, whole, EVEX_Vpblendmb_zmm_k1z_zmm_zmmm512)
            }
            (true, Uint16 | Float16) => {
                (EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8, whole, EVEX_Vpblendmw_zmm_k1z_zmm_zmmm512)
            }
            (true, Int16) => {
                (EVEX_Vpcmpw_kr_k1_zmm_zmmm512_imm8, whole, EVEX_Vpblendmw_zmm_k1z_zmm_zmmm512)
            }
            (true, Int32) => (
                EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
                whole,
                EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32,
            ),
            (true, Int64) => (
                EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8,
                whole,
                EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64,
            ),
        }
    }
}
