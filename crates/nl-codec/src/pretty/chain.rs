use core::fmt::{self, Display, Formatter};

use super::text::{Null, Shown};
use crate::msg::Family;
use crate::nft::chain::{Chain, ChainHook, Devices, Hook};
use crate::nft::flowtable::{Flowtable, FlowtableFlags};

/// A chain: what names it, then its hook, policy and counters.
///
/// ```text
/// ip kube-proxy nat-prerouting use 1 type nat hook prerouting prio -100 packets 0 bytes 0
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ChainText<'t> {
    /// Family of its table.
    pub family: Family,
    /// The chain.
    pub chain: &'t Chain<'t>,
}

impl Display for ChainText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (family, chain) = (self.family, self.chain);
        let (table, name) = (Null(chain.table), Null(chain.name));
        let in_use = chain.in_use.unwrap_or_default();
        write!(f, "{family} {table} {name} use {in_use}")?;
        let Some(ChainHook {
            hook,
            priority,
            device,
            devices,
        }) = chain.hook
        else {
            return Ok(());
        };
        let kind = Null(chain.kind);
        write!(f, " type {kind} hook ")?;
        hook_name(f, family, hook)?;
        write!(f, " prio {}", Shown(priority))?;
        if let Some(policy) = chain.policy {
            write!(f, " policy {policy}")?;
        }
        let counters = chain.counters.unwrap_or_default();
        let packets = counters.packets.unwrap_or_default();
        let bytes = counters.bytes.unwrap_or_default();
        write!(f, " packets {packets} bytes {bytes}")?;
        if let Some(device) = device {
            write!(f, " dev {device} ")?;
        }
        if let Some(devices) = devices {
            device_list(f, &devices)?;
        }
        if let Some(flags) = chain.flags {
            write!(f, " flags {:x}", flags.bits())?;
        }
        match chain.id {
            Some(id) => write!(f, " id {id:x}"),
            None => Ok(()),
        }
    }
}

/// A flowtable: what names it, then its hook and devices.
///
/// ```text
/// flow table filter fast use 0 size 0 flags 0 hook ingress prio 0  dev {  eth0  }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FlowtableText<'t>(pub &'t Flowtable<'t>);

impl Display for FlowtableText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let flowtable = self.0;
        let (table, name) = (Null(flowtable.table), Null(flowtable.name));
        let in_use = flowtable.in_use.unwrap_or_default();
        let flags = flowtable.flags.unwrap_or(FlowtableFlags::empty()).bits();
        // The size is libnftnl's, the kernel has no attribute for it.
        write!(
            f,
            "flow table {table} {name} use {in_use} size 0 flags {flags:x}"
        )?;
        let Some(hook) = flowtable.hook else {
            return Ok(());
        };
        f.write_str(" hook ")?;
        hook_name(f, Family::NETDEV, hook.hook.map(Hook))?;
        write!(f, " prio {} ", Shown(hook.priority))?;
        match hook.devices {
            Some(devices) => device_list(f, &devices),
            None => Ok(()),
        }
    }
}

/// Hook numbers mean different hooks in different families (`nftnl_hooknum2str`).
fn hook_name(f: &mut Formatter<'_>, family: Family, hook: Option<Hook>) -> fmt::Result {
    let name = match (family, hook) {
        (Family::NETDEV, Some(Hook::NETDEV_INGRESS)) => "ingress",
        (Family::NETDEV, Some(Hook::NETDEV_EGRESS)) => "egress",
        (Family::ARP, Some(Hook(0))) => "input",
        (Family::ARP, Some(Hook(1))) => "output",
        (Family::ARP, Some(Hook(2))) => "forward",
        _ => return Shown(hook).fmt(f),
    };
    f.write_str(name)
}

fn device_list(f: &mut Formatter<'_>, devices: &Devices<'_>) -> fmt::Result {
    f.write_str(" dev { ")?;
    for device in devices {
        match device {
            Ok(device) if device.prefix => write!(f, " {}* ", device.name)?,
            Ok(device) => write!(f, " {} ", device.name)?,
            Err(error) => write!(f, " [ {error} ] ")?,
        }
    }
    f.write_str(" } ")
}
