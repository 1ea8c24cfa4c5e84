//! The answer to load balancers that ask whether a Service has endpoints on this node.
//!
//! As kube-proxy's (`pkg/proxy/healthcheck`): any path and method; 200 if there is an endpoint and the
//! proxy is in step, else 503.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use svc_planner::object::ObjectName;
use tokio::net::TcpStream;

use super::http;
use super::task::Context;

/// How many endpoints there are: a weight for balancers that know it.
const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// One Service's answers.
#[derive(Debug)]
pub(super) struct Answers {
    service: ObjectName,
    local_endpoints: AtomicUsize,
    context: Arc<Context>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    service: Name<'a>,
    local_endpoints: usize,
    service_proxy_healthy: bool,
}

#[derive(Serialize)]
struct Name<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Answers {
    pub(super) fn new(service: ObjectName, local_endpoints: usize, context: Arc<Context>) -> Self {
        Self {
            service,
            local_endpoints: AtomicUsize::new(local_endpoints),
            context,
        }
    }

    /// From now on there are so many endpoints.
    pub(super) fn set(&self, local_endpoints: usize) {
        self.local_endpoints
            .store(local_endpoints, Ordering::Relaxed);
    }

    pub(super) const fn service(&self) -> &ObjectName {
        &self.service
    }

    /// For logs.
    pub(super) fn what(&self) -> String {
        let ObjectName { namespace, name } = &self.service;
        format!("health check of Service {namespace}/{name}")
    }

    /// Answers the requests of a connection.
    pub(super) async fn serve(self: Arc<Self>, connection: TcpStream) {
        http::serve(connection, |_| self.answer().into()).await;
    }

    fn answer(&self) -> Response<String> {
        let local_endpoints = self.local_endpoints.load(Ordering::Relaxed);
        let service_proxy_healthy = (self.context.healthy)();
        let body = Body {
            service: Name {
                namespace: &self.service.namespace,
                name: &self.service.name,
            },
            local_endpoints,
            service_proxy_healthy,
        };
        let mut response = Response::new(indented(&body));
        *response.status_mut() = if local_endpoints > 0 && service_proxy_healthy {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(WEIGHT, HeaderValue::from(local_endpoints));
        response
    }
}

/// Indented by tabs, as kube-proxy does it.
fn indented(body: &Body<'_>) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(b"\t");
    let written = body.serialize(&mut Serializer::with_formatter(&mut text, formatter));
    // Strings and numbers can be written.
    written
        .ok()
        .and_then(|()| String::from_utf8(text).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;

    /// Parity SH-2 and SH-3.
    #[test]
    fn answers() {
        let healthy = Arc::new(AtomicBool::new(true));
        let is_healthy = Arc::clone(&healthy);
        let context = Context::new(
            Arc::default(),
            Arc::new(move || is_healthy.load(Ordering::Relaxed)),
        );
        let service = ObjectName {
            namespace: "shop".into(),
            name: "web".into(),
        };
        let answers = Answers::new(service, 3, Arc::new(context));
        let answer = answers.answer();
        assert_eq!(answer.status(), 200);
        assert_eq!(
            answer.body(),
            "{\n\t\"service\": {\n\t\t\"namespace\": \"shop\",\n\t\t\"name\": \"web\"\n\t},\n\t\
             \"localEndpoints\": 3,\n\t\"serviceProxyHealthy\": true\n}"
        );
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("x-load-balancing-endpoint-weight"), "3");

        answers.set(0);
        assert_eq!(answers.answer().status(), 503);
        answers.set(1);
        healthy.store(false, Ordering::Relaxed);
        let answer = answers.answer();
        assert_eq!(answer.status(), 503);
        assert!(answer.body().contains("\"localEndpoints\": 1"));
        assert!(answer.body().contains("\"serviceProxyHealthy\": false"));
    }
}
