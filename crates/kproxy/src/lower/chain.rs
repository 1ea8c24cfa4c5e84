//! Chains.

use nl_codec::nft::{self, ChainHook};
use svc_planner::plan::{Chain, ChainKind, Hook};

/// A chain of `table`. No policy is given: the kernel's default is accept.
pub(super) fn chain<'a>(table: &'a str, chain: &'a Chain) -> nft::Chain<'a> {
    let body = nft::Chain::named(table, &chain.name);
    match chain.base {
        None => body,
        Some(base) => body.hooked(
            kind(base.kind),
            ChainHook::new(hook(base.hook), base.priority),
        ),
    }
}

const fn kind(kind: ChainKind) -> &'static str {
    match kind {
        ChainKind::Filter => "filter",
        ChainKind::Nat => "nat",
    }
}

const fn hook(hook: Hook) -> nft::Hook {
    match hook {
        Hook::Prerouting => nft::Hook::PREROUTING,
        Hook::Input => nft::Hook::INPUT,
        Hook::Forward => nft::Hook::FORWARD,
        Hook::Output => nft::Hook::OUTPUT,
        Hook::Postrouting => nft::Hook::POSTROUTING,
    }
}
