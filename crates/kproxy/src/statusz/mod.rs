//! `/statusz`: how the proxy is doing, for people.
//!
//! Plain HTML and inline SVG, no script, nothing from elsewhere; fit for a phone, light or dark as the
//! reader prefers. What is planned is asked of the loop ([`crate::proxy::Window`]), pages are written on a
//! thread of their own: neither syncs nor health checks wait for somebody who looks.
//!
//! Names come from the API and are hostile until `Escaped`.

mod api_server;
mod chart;
mod html;
mod overview;
mod query;
mod service;
mod services;

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use clap::ValueEnum;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY};
use hyper::{Response, StatusCode};
use svc_planner::object::ObjectName;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::query::Query;
use crate::apiserver::ApiBoard;
use crate::health::{Health, not_found, response};
use crate::listeners::{Ask, Pages, Reply};
use crate::metrics::SyncMetrics;
use crate::proxy::{History, Window};

/// How long to wait for the loop, which may be in the middle of a long transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who may look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Audience {
    /// Nobody.
    #[value(name = "off")]
    Nobody,
    /// Clients on this node, at loopback addresses: the page lists every Service.
    #[default]
    #[value(name = "local")]
    Local,
    /// Whoever reaches the address.
    #[value(name = "all")]
    Everybody,
}

/// Where what is shown comes from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The loop's status.
    pub health: Arc<Health>,
    /// What the loop counts.
    pub sync: Arc<SyncMetrics>,
    /// What happened last.
    pub history: History,
    /// What is planned.
    pub window: Window,
    /// Watches of the API server; `None` where objects come from a folder.
    pub api: Option<ApiBoard>,
    /// Name of the own Node.
    pub node: Box<str>,
}

/// Makes the pages under `/statusz`; others are not found.
#[must_use]
pub fn pages(sources: Sources, audience: Audience) -> Pages {
    let site = Arc::new(Site { sources });
    Arc::new(move |ask| {
        let may_look = match audience {
            Audience::Nobody => return not_found().into(),
            Audience::Local => ask.is_local,
            Audience::Everybody => true,
        };
        if !ask.path.starts_with("/statusz") {
            return not_found().into();
        }
        if !may_look {
            let why = "only for clients on this node, unless --statusz says otherwise\n";
            return response(StatusCode::FORBIDDEN, TEXT, why.to_owned()).into();
        }
        site.answer(ask)
    })
}

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// Nothing but styles within the page, and forms that lead to it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

struct Site {
    sources: Sources,
}

impl Site {
    fn answer(self: &Arc<Self>, ask: &Ask<'_>) -> Reply {
        let site = Arc::clone(self);
        let query = Query::parse(ask.query);
        match ask.path {
            "/statusz" | "/statusz/" => Reply::Later(Box::pin(async move {
                written(move || overview::page(&site.sources)).await
            })),
            "/statusz/services" => Reply::Later(Box::pin(async move {
                let wanted = services::wanted(&query);
                match timeout(PATIENCE, site.sources.window.services(wanted)).await {
                    Ok(Some(listing)) => {
                        written(move || services::page(&site.sources, &listing, &query)).await
                    }
                    _ => busy(),
                }
            })),
            "/statusz/service" => Reply::Later(Box::pin(async move {
                let Some(name) = query.service() else {
                    return not_found();
                };
                let from = service::first_endpoint(&query);
                let asked = site.sources.window.service(name.clone(), from);
                match timeout(PATIENCE, asked).await {
                    Ok(Some(details)) if details.is_empty() => not_found(),
                    Ok(Some(details)) => {
                        let page = move || service::page(&site.sources, &name, &details, &query);
                        written(page).await
                    }
                    _ => busy(),
                }
            })),
            _ => not_found().into(),
        }
    }
}

/// A page, written on a thread of its own.
async fn written(page: impl FnOnce() -> String + Send + 'static) -> Response<String> {
    match spawn_blocking(page).await {
        Ok(page) => html(StatusCode::OK, page),
        Err(_) => response(
            StatusCode::INTERNAL_SERVER_ERROR,
            TEXT,
            "the page could not be written\n".to_owned(),
        ),
    }
}

fn busy() -> Response<String> {
    let why = "the loop is busy or does not run yet; try again\n";
    response(StatusCode::SERVICE_UNAVAILABLE, TEXT, why.to_owned())
}

fn html(code: StatusCode, page: String) -> Response<String> {
    let mut response = response(code, HTML, page);
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Query {
    /// The Service that `name` names.
    fn service(&self) -> Option<ObjectName> {
        let (namespace, name) = self.text("name").split_once('/')?;
        Some(ObjectName {
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

/// Parameters by name.
type Parameters = BTreeMap<String, String>;
