//! Tables, chains, sets, objects and flowtables: what stands behind `add table` and so on.

use core::fmt::Write as _;

use nl_codec::msg::Family;
use nl_codec::nft::chain::{ChainFlags, Devices, Hook, Policy};
use nl_codec::nft::flowtable::FlowtableFlags;
use nl_codec::nft::set::{SetFlags, SetPolicy};
use nl_codec::nft::table::TableFlags;
use nl_codec::nft::udata::{self, SetInfo};
use nl_codec::nft::{Chain, Flowtable, Obj, Set, Str, Table};
use nl_codec::pretty::ObjText;

use super::value::duration;

/// A name, or `?` where there is none.
pub(super) fn name(name: Option<Str<'_>>) -> String {
    name.map_or_else(|| "?".to_owned(), |name| name.to_string())
}

/// What an object is called: by name, else by handle.
pub(super) fn called(by_name: Option<Str<'_>>, handle: Option<u64>) -> String {
    match (by_name, handle) {
        (Some(name), _) => name.to_string(),
        (None, Some(handle)) => format!("handle {handle}"),
        (None, None) => "?".to_owned(),
    }
}

/// `ip t c`: what is in a table.
fn within(
    family: Family,
    table: Option<Str<'_>>,
    by_name: Option<Str<'_>>,
    handle: Option<u64>,
) -> String {
    format!("{family} {} {}", name(table), called(by_name, handle))
}

/// `ip t`, and its flags.
#[must_use]
pub fn table(family: Family, table: &Table<'_>) -> String {
    let mut text = format!("{family} {}", called(table.name, table.handle));
    let flags = table.flags.unwrap_or(TableFlags::empty());
    let known = [
        (TableFlags::DORMANT, "dormant"),
        (TableFlags::OWNER, "owner"),
        (TableFlags::PERSIST, "persist"),
    ];
    let mut parts = Vec::new();
    parts.extend(flag_list(
        known.map(|(flag, name)| (flags.contains(flag), name)),
    ));
    comment(&mut parts, table.userdata);
    braces(&mut text, &parts);
    text
}

/// `ip t c`, and where it is hooked.
#[must_use]
pub fn chain(family: Family, chain: &Chain<'_>) -> String {
    let mut text = within(family, chain.table, chain.name, chain.handle);
    let mut parts = Vec::new();
    if let Some(hook) = &chain.hook {
        let mut part = format!("type {} hook ", name(chain.kind));
        part += &hook_name(family, hook.hook);
        if let Some(device) = hook.device {
            let _ = write!(part, " device \"{device}\"");
        }
        if let Some(devices) = &hook.devices {
            part += &device_list(devices);
        }
        let _ = write!(part, " priority {};", hook.priority.unwrap_or_default());
        parts.push(part);
    }
    if let Some(policy) = chain.policy {
        let known = [Policy::ACCEPT, Policy::DROP].contains(&policy);
        parts.push(if known {
            format!("policy {policy};")
        } else {
            format!("policy {};", policy.0)
        });
    }
    let flags = chain.flags.unwrap_or(ChainFlags::empty());
    if flags.contains(ChainFlags::BINDING) {
        parts.push("anonymous;".to_owned());
    }
    if flags.contains(ChainFlags::HW_OFFLOAD) {
        parts.push("flags offload;".to_owned());
    }
    comment(&mut parts, chain.userdata);
    braces(&mut text, &parts);
    text
}

/// `ip t s`, and what it holds.
#[must_use]
pub fn set(family: Family, set: &Set<'_>) -> String {
    let mut text = within(family, set.table, set.name, set.handle);
    let mut parts = Vec::new();
    let flags = set.flags.unwrap_or(SetFlags::empty());
    if let Some(key) = set.key_type {
        let key = if key.0 == 0 {
            format!("{} bytes", set.key_len.unwrap_or_default())
        } else {
            key.to_string()
        };
        match (set.data_type, set.obj_type) {
            (_, Some(kind)) if flags.contains(SetFlags::OBJECT) => {
                parts.push(format!("type {key} : {kind};"));
            }
            (Some(data), _) if flags.contains(SetFlags::MAP) => {
                parts.push(format!("type {key} : {data};"));
            }
            _ => parts.push(format!("type {key};")),
        }
    }
    let known = [
        (SetFlags::ANONYMOUS, "anonymous"),
        (SetFlags::CONSTANT, "constant"),
        (SetFlags::INTERVAL, "interval"),
        (SetFlags::TIMEOUT, "timeout"),
        (SetFlags::EVAL, "dynamic"),
    ];
    parts.extend(flag_list(
        known.map(|(flag, name)| (flags.contains(flag), name)),
    ));
    if let Some(timeout) = set.timeout {
        parts.push(format!("timeout {};", duration(timeout)));
    }
    if let Some(interval) = set.gc_interval.filter(|interval| *interval > 0) {
        parts.push(format!("gc-interval {};", duration(interval.into())));
    }
    if let Some(size) = set.desc.and_then(|desc| desc.size) {
        parts.push(format!("size {size};"));
    }
    if set.policy == Some(SetPolicy::MEMORY) {
        parts.push("policy memory;".to_owned());
    }
    let exprs = set.exprs.iter().flatten().filter_map(Result::ok);
    let expr = set.expr.and_then(|expr| expr.expr().ok());
    for expr in expr.into_iter().chain(exprs) {
        parts.push(format!("{};", super::statement::stateful(&expr)));
    }
    let info = SetInfo::decode(set.userdata.unwrap_or_default()).unwrap_or_default();
    if info.merge_elements == Some(true) {
        parts.push("auto-merge;".to_owned());
    }
    if let Some(comment) = info.comment {
        parts.push(format!("comment \"{comment}\";"));
    }
    braces(&mut text, &parts);
    text
}

/// `counter ip t name`, and its parameters.
#[must_use]
pub fn object(family: Family, obj: &Obj<'_>) -> String {
    let kind = obj.kind.or_else(|| obj.data.map(|data| data.kind()));
    let kind = kind.map_or_else(|| "object".to_owned(), |kind| kind.to_string());
    let place = within(family, obj.table, obj.name, obj.handle);
    let mut text = format!("{kind} {place}");
    let mut parts = Vec::new();
    if obj.data.is_some() {
        // What stands between brackets is about the data alone.
        let shown = ObjText(obj).to_string();
        let data = shown.split_once('[').map_or("", |(_, data)| data);
        parts.push(format!("[{data}"));
    }
    comment(&mut parts, obj.userdata);
    braces(&mut text, &parts);
    text
}

/// `ip t f`, and its devices.
#[must_use]
pub fn flowtable(family: Family, flowtable: &Flowtable<'_>) -> String {
    let mut text = within(family, flowtable.table, flowtable.name, flowtable.handle);
    let mut parts = Vec::new();
    if let Some(hook) = &flowtable.hook {
        let mut part = format!(
            "hook ingress priority {};",
            hook.priority.unwrap_or_default()
        );
        if let Some(devices) = &hook.devices {
            part += &device_list(devices);
            part.push(';');
        }
        parts.push(part);
    }
    let flags = flowtable.flags.unwrap_or(FlowtableFlags::empty());
    if !flags.is_empty() {
        parts.push(format!("flags {:#x};", flags.bits()));
    }
    braces(&mut text, &parts);
    text
}

/// `flags a,b;`, of those that are set; nothing if none is.
fn flag_list<const N: usize>(flags: [(bool, &str); N]) -> Option<String> {
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    let names: Vec<_> = set.map(|(_, name)| name).collect();
    (!names.is_empty()).then(|| format!("flags {};", names.join(",")))
}

fn braces(text: &mut String, parts: &[String]) {
    if !parts.is_empty() {
        let _ = write!(text, " {{ {} }}", parts.join(" "));
    }
}

fn comment(parts: &mut Vec<String>, userdata: Option<&[u8]>) {
    if let Some(comment) = userdata.and_then(udata::comment) {
        parts.push(format!("comment \"{comment}\";"));
    }
}

fn hook_name(family: Family, hook: Option<Hook>) -> String {
    match (family, hook) {
        (_, None) => "?".to_owned(),
        (Family::NETDEV, Some(Hook::NETDEV_INGRESS)) => "ingress".to_owned(),
        (Family::NETDEV, Some(Hook::NETDEV_EGRESS)) => "egress".to_owned(),
        (Family::ARP, Some(Hook(0))) => "input".to_owned(),
        (Family::ARP, Some(Hook(1))) => "output".to_owned(),
        (_, Some(hook)) => hook.to_string(),
    }
}

fn device_list(devices: &Devices<'_>) -> String {
    let names: Vec<_> = devices
        .iter()
        .map(|device| match device {
            Ok(device) => {
                let more = if device.prefix { "*" } else { "" };
                format!("\"{}{more}\"", device.name)
            }
            Err(error) => format!("[ {error} ]"),
        })
        .collect();
    format!(" devices = {{ {} }}", names.join(", "))
}
