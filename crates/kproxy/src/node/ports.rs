//! Ports of the proxy's own pages that must be free (`bindAddressHardFail`).

use super::{NodeError, SiteSettings};
use crate::engine::EngineError;
use crate::listeners;
use crate::netns::Netns;

/// Makes sure that each page can be listened for. Without this, a port that is taken is waited for.
pub(super) fn require(netns: &Netns, sites: &SiteSettings) -> Result<(), NodeError> {
    for address in [sites.healthz, sites.metrics].into_iter().flatten() {
        let bound = netns.within(move || listeners::site(address).map(drop));
        bound
            .map_err(EngineError::from)?
            .map_err(|error| NodeError::Listen { address, error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_that_is_taken_is_an_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let sites = SiteSettings {
            metrics: Some(address),
            ..SiteSettings::default()
        };
        let error = require(&Netns::Current, &sites).unwrap_err();
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        drop(taken);
        require(&Netns::Current, &sites).unwrap();
    }
}
