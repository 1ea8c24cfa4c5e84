//! Addresses that come and go in the calling thread's network namespace.

use core::net::IpAddr;

use crate::error::LabError;
use crate::netlink::Netlink;

/// Adds a single address to the link `name`, usable at once.
///
/// # Errors
/// When there is no such link, or the kernel refuses.
pub fn add_address(name: &str, address: IpAddr) -> Result<(), LabError> {
    let mut netlink = Netlink::open()?;
    let link = netlink.index(name)?;
    netlink.add_address(link, address)
}

/// Removes what [`add_address`] added.
///
/// # Errors
/// When it is not there, or the kernel refuses.
pub fn remove_address(name: &str, address: IpAddr) -> Result<(), LabError> {
    let mut netlink = Netlink::open()?;
    let link = netlink.index(name)?;
    netlink.remove_address(link, address)
}
