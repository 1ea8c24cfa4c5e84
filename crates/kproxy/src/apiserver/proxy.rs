//! The way through a proxy, if there is one: the kubeconfig's `proxy-url`, which exempts nobody, or what
//! the environment says, as Go's `http.ProxyFromEnvironment` reads it. kubeadm hands the variables of
//! its own environment on to kube-proxy's Pods.

use core::net::IpAddr;

use hyper::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use super::ClientError;
use super::kubeconfig::variable;

/// The proxy for a server.
///
/// # Errors
/// [`ClientError::Proxy`] for a `configured` one that is none.
pub(super) fn of(server: &Uri, configured: Option<&str>) -> Result<Option<Intercept>, ClientError> {
    let Some(url) = configured else {
        return Ok(of_environment(server, variable));
    };
    let is_proxy = ["http://", "https://", "socks5://", "socks5h://"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    let proxy = Matcher::builder().all(url).build().intercept(server);
    match proxy {
        Some(proxy) if is_proxy => Ok(Some(proxy)),
        _ => Err(ClientError::Proxy(without_password(url))),
    }
}

/// What may be said of a URL, however wrong it is.
pub(super) fn without_password(url: &str) -> String {
    let Some((user, host)) = url.rsplit_once('@') else {
        return url.to_owned();
    };
    let scheme = user.split_once("://").map(|(scheme, _)| scheme);
    scheme.map_or_else(|| host.to_owned(), |scheme| format!("{scheme}://{host}"))
}

fn of_environment(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Option<Intercept> {
    let either = |upper: &str| variable(upper).or_else(|| variable(&upper.to_lowercase()));
    let url = either(match server.scheme_str() {
        Some("https") => "HTTPS_PROXY",
        _ => "HTTP_PROXY",
    })?;
    let exempt = either("NO_PROXY").unwrap_or_default();
    let is_everybody_exempt = exempt.split(',').any(|entry| entry.trim() == "*");
    if is_own(server) || is_everybody_exempt {
        return None;
    }
    let proxy = Matcher::builder().all(&url).no(hosts(server, &exempt));
    proxy.build().intercept(server)
}

/// Go never asks a proxy for what is on the same host.
fn is_own(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|it: IpAddr| it.is_loopback())
}

/// The entries of `NO_PROXY` that may be about a server, without their ports.
fn hosts(server: &Uri, exempt: &str) -> String {
    let usual = match server.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    let port = server.port_u16().unwrap_or(usual);
    let about = exempt.split(',').filter_map(|entry| {
        let (host, its) = split_port(entry.trim());
        its.is_none_or(|its| its == port)
            .then(|| host.strip_prefix('*').unwrap_or(host))
    });
    about.collect::<Vec<_>>().join(",")
}

/// `host`, `host:port`, `[address]`, `[address]:port`, an IPv6 address, or a network.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|it| it.split_once(']')) {
        let port = rest.strip_prefix(':').and_then(|port| port.parse().ok());
        return (address, port);
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(server: &str, set: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = set.iter().find(|(its, _)| *its == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = of_environment(&server.parse().unwrap(), variable);
        found.map(|it| it.uri().to_string())
    }

    /// Each as the real kube-proxy 1.37.2 does it.
    #[test]
    fn the_environment_is_read_as_by_kube_proxy() {
        const SERVER: &str = "https://192.0.2.1:6443";
        const PROXY: &str = "http://198.51.100.1:3128";
        let through = Some(format!("{PROXY}/"));
        for set in [
            &[("HTTPS_PROXY", PROXY)][..],
            &[("https_proxy", PROXY)],
            &[("HTTPS_PROXY", "198.51.100.1:3128")],
            // The proxy's own address is no reason, nor is another port.
            &[("HTTPS_PROXY", PROXY), ("NO_PROXY", "198.51.100.1")],
            &[("HTTPS_PROXY", PROXY), ("NO_PROXY", "192.0.2.1:3128")],
            &[
                ("HTTPS_PROXY", PROXY),
                ("NO_PROXY", "a/b/c,,999.1.1.1/3,192.0.2.1/99"),
            ],
        ] {
            assert_eq!(proxy(SERVER, set), through, "{set:?}");
        }
        for set in [
            &[][..],
            &[("HTTP_PROXY", PROXY)],
            &[("ALL_PROXY", PROXY)],
            &[("HTTPS_PROXY", "::bad")],
            &[("HTTPS_PROXY", PROXY), ("NO_PROXY", "192.0.2.1")],
            &[("HTTPS_PROXY", PROXY), ("NO_PROXY", "192.0.2.1:6443")],
            &[("HTTPS_PROXY", PROXY), ("no_proxy", "foo, 192.0.0.0/16")],
            &[("HTTPS_PROXY", PROXY), ("NO_PROXY", "*")],
        ] {
            assert_eq!(proxy(SERVER, set), None, "{set:?}");
        }
        let set = [
            ("HTTPS_PROXY", PROXY),
            ("NO_PROXY", "[2001:db8::1]:443,.corp.test,*.svc"),
        ];
        for (server, exempt) in [
            ("https://[2001:db8::1]", true),
            ("https://[2001:db8::1]:6443", false),
            ("https://api.corp.test", true),
            ("https://kubernetes.default.svc", true),
            ("https://api.test", false),
            ("https://localhost:6443", true),
            ("https://127.0.0.1:6443", true),
            ("https://[::1]:6443", true),
        ] {
            assert_eq!(proxy(server, &set).is_none(), exempt, "{server}");
        }
        assert_eq!(proxy("http://192.0.2.1", &[("http_proxy", PROXY)]), through);
    }

    #[test]
    fn a_proxy_of_the_kubeconfig_is_taken_or_refused() {
        let server = "https://127.0.0.1:6443".parse().unwrap();
        for url in ["http://h:1", "https://h", "socks5://me:pw@h:1080"] {
            assert!(of(&server, Some(url)).unwrap().is_some(), "{url}");
        }
        for url in ["h:1", "me:secret@h:1", "foo://me:secret@h", "http://"] {
            let error = of(&server, Some(url)).unwrap_err().to_string();
            assert!(
                error.contains("only http") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
