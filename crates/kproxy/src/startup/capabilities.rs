//! Which capabilities the proxy keeps.
//!
//! | capability | for |
//! |---|---|
//! | `CAP_NET_ADMIN` | nf_tables, conntrack, links and IPVS by netlink; buffers beyond the limit; settings of the network namespace |
//! | `CAP_NET_BIND_SERVICE` | ports below 1024, where the range of node ports holds some |
//! | `CAP_SYS_ADMIN` | entering another network namespace; only with `--netns` |
//!
//! What it does not have already it does without: in an unprivileged container that is the first alone.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};

/// Drops all others from the calling thread: effective, permitted, inheritable, ambient, and where that
/// is allowed from the bounding set.
pub(super) fn drop_unneeded(enter_namespaces: bool) -> io::Result<()> {
    let found = capabilities(None)?;
    let kept = found.permitted & needed(enter_namespaces);
    if found.effective.contains(CapabilitySet::SETPCAP) {
        bound(kept)?;
    }
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    tracing::debug!("capabilities kept: {}", names(kept));
    Ok(())
}

/// Names of the capabilities in force for the calling thread.
///
/// # Errors
/// Of the system call.
pub fn held() -> io::Result<String> {
    Ok(names(capabilities(None)?.effective))
}

const fn needed(enter_namespaces: bool) -> CapabilitySet {
    let always = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_BIND_SERVICE);
    if enter_namespaces {
        always.union(CapabilitySet::SYS_ADMIN)
    } else {
        always
    }
}

/// Makes it impossible to gain others.
fn bound(kept: CapabilitySet) -> io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !kept.contains(capability) => {
                remove_capability_from_bounding_set(capability)?;
            }
            Ok(_) => {}
            // One that this kernel does not have; nor has it any behind.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn names(set: CapabilitySet) -> String {
    let names: Vec<_> = set.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_keeps_what_it_has_and_needs() {
        let on_a_thread = |enter_namespaces| {
            thread::spawn(move || {
                let before = capabilities(None).unwrap().permitted;
                drop_unneeded(enter_namespaces).unwrap();
                (before, capabilities(None).unwrap())
            })
            .join()
            .unwrap()
        };
        for enter_namespaces in [false, true] {
            let (before, after) = on_a_thread(enter_namespaces);
            let expected = before & needed(enter_namespaces);
            assert_eq!(after.permitted, expected);
            assert_eq!(after.effective, expected);
            assert!(after.inheritable.is_empty());
        }
        assert_eq!(names(CapabilitySet::empty()), "none");
        assert_eq!(
            names(needed(true)),
            "NET_BIND_SERVICE, NET_ADMIN, SYS_ADMIN"
        );
    }
}
