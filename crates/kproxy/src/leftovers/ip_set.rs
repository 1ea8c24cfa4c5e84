//! The sets of mode `ipvs`, by name (`net/netfilter/ipset/ip_set_core.c`). They take no packets by
//! themselves; without the rules that used them they only use memory.

use netlink_sys::protocols::NETLINK_NETFILTER;
use nl_codec::msg::{Body, Family, Flags, Head, MsgType, Subsystem};
use nl_codec::{AttrBytes, Attrs, DecodeError, EncodeError, Encoder, put_attr};

use super::exchange::{Exchange, ExchangeError};
use super::names;

/// `NFNL_SUBSYS_IPSET`.
const IPSET: Subsystem = Subsystem(6);
/// `linux/netfilter/ipset/ip_set.h`.
const IPSET_CMD_DESTROY: u8 = 3;
const IPSET_ATTR_PROTOCOL: u16 = 1;
const IPSET_ATTR_SETNAME: u16 = 2;
/// Understood by all kernels (`IPSET_PROTOCOL_MIN`).
const PROTOCOL: u8 = 6;
const AF_INET: Family = Family(2);

/// Destroys those that are there and not in use; returns how many.
///
/// # Errors
/// Of opening a socket.
pub(super) fn remove() -> Result<usize, ExchangeError> {
    let mut exchange = Exchange::open(NETLINK_NETFILTER)?;
    let mut removed = 0;
    for name in names::ip_sets() {
        // With EXCL the kernel says when there is none (`flag_exist`).
        let head = Head::new(MsgType::new(IPSET, IPSET_CMD_DESTROY), AF_INET);
        let head = head.with_flags(Flags::EXCL);
        match exchange.ask(head, &Destroy { name: &name }, |_| Ok(())) {
            Ok(()) => removed += 1,
            // It is not there, or somebody uses it.
            Err(ExchangeError::Kernel(errno)) => tracing::trace!("set {name}: {errno}"),
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

struct Destroy<'n> {
    name: &'n str,
}

impl<'n> Body<'n> for Destroy<'n> {
    fn encode_body<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        put_attr::<_, AttrBytes<'_>>(enc, IPSET_ATTR_PROTOCOL, &[PROTOCOL].as_slice())?;
        let mut name = self.name.as_bytes().to_vec();
        name.push(0);
        put_attr::<_, AttrBytes<'_>>(enc, IPSET_ATTR_SETNAME, &name.as_slice())
    }

    fn decode_body(_attrs: Attrs<'n>) -> Result<Self, DecodeError> {
        Ok(Self { name: "" })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs `ipset` and returns what it prints.
    fn ipset(args: &str) -> String {
        let mut command = Command::new("ipset");
        let output = command.args(args.split(' ')).output().unwrap();
        assert!(output.status.success(), "ipset {args}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn sets_go_by_name_and_those_in_use_or_of_others_stay() {
        if Command::new("ipset").arg("version").output().is_err() {
            test_support::skip("no ipset: package ipset");
            return;
        }
        test_support::in_new_netns(|| {
            assert_eq!(remove().unwrap(), 0);
            ipset("create KUBE-CLUSTER-IP hash:ip,port");
            ipset("create KUBE-6-CLUSTER-IP hash:ip,port family inet6");
            ipset("create KUBE-NODE-PORT-TCP bitmap:port range 0-65535");
            ipset("create KUBE-MINE hash:ip");
            ipset("create a list:set");
            ipset("add a KUBE-NODE-PORT-TCP");
            assert_eq!(remove().unwrap(), 2);
            let left = ipset("list -n");
            let mut left: Vec<_> = left.lines().collect();
            left.sort_unstable();
            assert_eq!(left, ["KUBE-MINE", "KUBE-NODE-PORT-TCP", "a"]);
        });
    }
}
