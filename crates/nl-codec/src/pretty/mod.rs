//! Text in the style of `nft --debug=netlink` (libnftnl 1.2.4, the one of nft 1.0.6).
//!
//! Expressions are [`Display`](core::fmt::Display) themselves: `[ meta load l4proto => reg 1 ]`.
//! The adaptors here show whole objects. Nothing allocates.
//!
//! Where the text differs from nft's:
//! - a number without a name is shown as a number, where libnftnl says `unknown`; `ct id`, which
//!   libnftnl 1.2.4 has a name for and does not find, has its name;
//! - a mandatory attribute that is missing is `?`, where libnftnl shows 0;
//! - the timeouts of a `ct timeout` object are shown by number, all of them, where libnftnl names
//!   those that differ from the kernel's defaults;
//! - a flowtable's hook is `ingress`, which libnftnl calls `prerouting`; inet ingress and netdev
//!   egress have their names;
//! - nft shows chains, objects and flowtables before it has put in their names (`(null)`) and the
//!   policy; here what the message holds is shown.

mod chain;
mod obj;
mod rule;
mod set;
pub(crate) mod text;

pub use chain::{ChainText, FlowtableText};
pub use obj::ObjText;
pub use rule::RuleText;
pub use set::{ElemText, ElemsText, SetText};

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use crate::nft::Register;
    use crate::nft::expr::{
        Bitwise, BitwiseOp, Ct, CtDirection, CtKey, Expr, ExprRef, Inner, Last, Meta, MetaKey,
        Tunnel, TunnelKey,
    };

    /// As nft 1.1.7 prints them.
    #[test]
    fn expressions_that_nft_1_0_6_lacks() {
        let (r1, r2) = (Register::R1, Register::R2);
        let protocol = Expr::from(Meta::load(MetaKey::PROTOCOL, r1));
        let vxlan = Inner::vxlan(ExprRef::new(&protocol));
        let tunnel = Tunnel::load(TunnelKey::ID, r1);
        let or = Bitwise::registers(BitwiseOp::OR, r1, r2, r1, 4);
        let cases: [(Expr<'_>, &str); 5] = [
            (
                vxlan.into(),
                "[ inner type 1 hdrsize 8 flags f [ meta load protocol => reg 1 ] ]",
            ),
            (tunnel.into(), "[ tunnel load id => reg 1 ]"),
            (or.into(), "[ bitwise reg 1 = ( reg 1 | reg 2 ) ]"),
            (Last::default().into(), "[ last never ]"),
            (
                Meta::set(MetaKey::BRI_BROUTE, r1).into(),
                "[ meta set broute with reg 1 ]",
            ),
        ];
        for (expr, text) in cases {
            assert_eq!(expr.to_string(), text);
        }
    }

    /// As nft 1.0.6 prints `ct original saddr` and `ct original zone set`.
    #[test]
    fn directions() {
        let load = Ct::load(CtKey::SRC, Register::R1).direction(CtDirection::ORIGINAL);
        let set = Ct::set(CtKey::ZONE, Register::R1).direction(CtDirection::REPLY);
        assert_eq!(
            Expr::from(load).to_string(),
            "[ ct load src => reg 1 , dir original ]"
        );
        assert_eq!(
            Expr::from(set).to_string(),
            "[ ct set zone with reg 1 , dir reply ]"
        );
    }
}
