use std::{fs, io};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::{getegid, geteuid},
};

use crate::error::{Doing as _, LabError};

/// Makes sure this process may create network namespaces: does nothing for root, otherwise enters a
/// user namespace in which it is root.
///
/// # Errors
/// [`LabError::NoPrivilege`] where the kernel refuses user namespaces, or when the process already
/// has several threads (the kernel allows it to single-threaded processes only).
pub fn enter_user_namespace() -> Result<(), LabError> {
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        return Ok(());
    }
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|errno| LabError::NoPrivilege(io::Error::from(errno)))?;
    // user_namespaces(7): without CAP_SETGID outside, setgroups must be given up before the map.
    fs::write("/proc/self/setgroups", "deny").doing("give up setgroups")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1")).doing("map the user id")?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1")).doing("map the group id")?;
    Ok(())
}
