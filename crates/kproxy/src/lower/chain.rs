//! Chains.

use nl_codec::nft::chain::Policy;
use nl_codec::nft::{self, ChainHook};
use svc_planner::plan::{Chain, ChainKind, Hook};

/// A chain of `table`. The policy is accept, also where a base chain is there with another one.
pub(super) fn chain<'a>(table: &'a str, chain: &'a Chain) -> nft::Chain<'a> {
    let body = nft::Chain::named(table, &chain.name);
    match chain.base {
        None => body,
        Some(base) => {
            let place = ChainHook::new(hook(base.hook), base.priority);
            let mut body = body.hooked(kind(base.kind), place);
            body.policy = Some(Policy::ACCEPT);
            body
        }
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
