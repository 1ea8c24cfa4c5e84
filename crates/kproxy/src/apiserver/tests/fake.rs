//! An API server that does as a test says: for what a real one does only when it is ill.

use core::convert::Infallible;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::secure::{Door, GoAway};
use crate::api::Kind;
use crate::apiserver::protobuf::schema;

/// A request as it came in.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    /// Number of the secure connection that it came by.
    pub(super) connection: usize,
}

impl Asked {
    pub(super) fn is_list(&self) -> bool {
        !self.query.contains("watch=true") || self.query.contains("sendInitialEvents=true")
    }

    pub(super) fn is_stream(&self) -> bool {
        self.query.contains("watch=true")
    }

    pub(super) fn wants_protobuf(&self) -> bool {
        self.header("accept").contains("protobuf")
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Whether an Event is told, which is of no kind that is read.
    pub(super) fn is_event(&self) -> bool {
        self.path.ends_with("/events")
    }

    pub(super) fn kind(&self) -> Kind {
        match self.path.rsplit('/').next().unwrap() {
            "services" => Kind::Service,
            "endpointslices" => Kind::EndpointSlice,
            "servicecidrs" => Kind::ServiceCidr,
            "nodes" => Kind::Node,
            other => panic!("{other}"),
        }
    }
}

/// What to answer.
pub(super) struct Reply {
    code: u16,
    headers: Vec<(&'static str, String)>,
    steps: VecDeque<Step>,
}

/// How a body goes on.
pub(super) enum Step {
    Bytes(Vec<u8>),
    /// Whatever is sent here, until the sender is gone.
    Later(mpsc::UnboundedReceiver<Vec<u8>>),
    /// Nothing ever.
    Hang,
    /// The connection breaks.
    Cut,
}

impl Reply {
    pub(super) fn refuse(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "reason": reason, "message": message});
        Self {
            code,
            headers: vec![("content-type", "application/json".to_owned())],
            steps: [Step::Bytes(status.to_string().into_bytes())].into(),
        }
    }

    pub(super) fn body(asked: &Asked, steps: impl IntoIterator<Item = Step>) -> Self {
        let encoding = if asked.wants_protobuf() {
            "application/vnd.kubernetes.protobuf"
        } else {
            "application/json"
        };
        let stream = if asked.is_stream() {
            ";stream=watch"
        } else {
            ""
        };
        Self {
            code: 200,
            headers: vec![("content-type", format!("{encoding}{stream}"))],
            steps: steps.into_iter().collect(),
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// All there is, and nothing more: as a streaming list and a watch that stays open, or a list.
    pub(super) fn all(asked: &Asked, version: &str, objects: &[Json]) -> Self {
        if !asked.is_list() {
            return Self::body(asked, [Step::Hang]);
        }
        Self::body(
            asked,
            [Step::Bytes(whole(asked, version, objects)), Step::Hang]
                .into_iter()
                .take(if asked.is_stream() { 2 } else { 1 }),
        )
    }
}

/// The bytes of a list: events and a bookmark, or a list object.
pub(super) fn whole(asked: &Asked, version: &str, objects: &[Json]) -> Vec<u8> {
    if !asked.is_stream() {
        return list(asked, version, "", objects);
    }
    let mut bytes: Vec<u8> = objects
        .iter()
        .flat_map(|it| event(asked, "ADDED", it))
        .collect();
    bytes.extend(event(asked, "BOOKMARK", &end(version)));
    bytes
}

pub(super) fn list(asked: &Asked, version: &str, token: &str, objects: &[Json]) -> Vec<u8> {
    let kind = asked.kind();
    if asked.wants_protobuf() {
        return schema::list(kind, version, token, objects);
    }
    let list = json!({"kind": format!("{kind}List"), "apiVersion": "v1",
        "metadata": {"resourceVersion": version, "continue": token}, "items": objects});
    list.to_string().into_bytes()
}

pub(super) fn event(asked: &Asked, kind: &str, object: &Json) -> Vec<u8> {
    if !asked.wants_protobuf() {
        return format!("{}\n", json!({"type": kind, "object": object})).into_bytes();
    }
    let object = if kind == "ERROR" {
        schema::status(object)
    } else {
        schema::enveloped(asked.kind(), object)
    };
    let frame = schema::event(kind, &object);
    let length = u32::try_from(frame.len()).unwrap();
    [&length.to_be_bytes()[..], &frame].concat()
}

/// The bookmark behind the objects that a streaming list begins with.
pub(super) fn end(version: &str) -> Json {
    json!({"metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}})
}

pub(super) fn bookmark(version: &str) -> Json {
    json!({"metadata": {"resourceVersion": version}})
}

pub(super) fn gone() -> Json {
    json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old resource version: 1 (9)"})
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Handler = dyn Fn(&Asked) -> Reply + Send + Sync;

/// See the module; it ends when dropped.
pub(super) struct Fake {
    pub(super) address: SocketAddr,
    /// Where TLS is spoken.
    door: Option<Door>,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    pub(super) fn start(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::open("127.0.0.1:0".parse().unwrap(), None, handler)
    }

    pub(super) fn start_at(
        address: SocketAddr,
        handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::open(address, None, handler)
    }

    /// Speaks HTTP/2, over TLS, as that is where it is agreed on.
    pub(super) fn start_secure(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::open("127.0.0.1:0".parse().unwrap(), Some(Door::new()), handler)
    }

    fn open(
        address: SocketAddr,
        door: Option<Door>,
        handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let desk = Desk {
            handler: Arc::new(handler),
            asked: Arc::clone(&asked),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let behind = door.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve(listener, behind, desk) => {}
                }
            });
            // Connections break.
            runtime.shutdown_background();
        });
        Self {
            address,
            door,
            asked,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Requests so far, of one kind.
    pub(super) fn asked(&self, kind: Kind) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|it| !it.is_event() && it.kind() == kind)
            .cloned()
            .collect()
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.door.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Says GOAWAY on every connection.
    pub(super) fn go_away(&self, how: GoAway) {
        self.door.as_ref().unwrap().go_away(how);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Who answers.
#[derive(Clone)]
pub(super) struct Desk {
    handler: Arc<Handler>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Desk {
    pub(super) fn answer(
        &self,
        request: &Request<Incoming>,
        connection: usize,
    ) -> Response<Script> {
        let asked = Asked {
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            headers: request.headers().clone(),
            connection,
        };
        self.asked.lock().unwrap().push(asked.clone());
        let reply = (self.handler)(&asked);
        let mut response = Response::builder().status(reply.code);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response.body(Script(reply.steps, false)).unwrap()
    }
}

async fn serve(listener: TcpListener, door: Option<Door>, desk: Desk) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let desk = desk.clone();
        if let Some(door) = door.clone() {
            tokio::spawn(door.serve(stream, desk));
            continue;
        }
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = desk.answer(&request, 0);
                async { Ok::<_, Infallible>(response) }
            });
            // A client that goes away, and a body that is to break, are errors.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// A body, and whether it has been flushed before it is cut.
pub(super) struct Script(VecDeque<Step>, bool);

impl Body for Script {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let ready = |bytes: Vec<u8>| Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
        let script = &mut *self;
        loop {
            match script.0.front_mut() {
                None => return Poll::Ready(None),
                Some(Step::Hang) => return Poll::Pending,
                Some(Step::Cut) if script.1 => {
                    return Poll::Ready(Some(Err(io::ErrorKind::BrokenPipe.into())));
                }
                Some(Step::Cut) => {
                    // What was sent before is flushed while there is nothing to send.
                    script.1 = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Step::Bytes(bytes)) => {
                    let bytes = core::mem::take(bytes);
                    script.0.pop_front();
                    return ready(bytes);
                }
                Some(Step::Later(receiver)) => match receiver.poll_recv(context) {
                    Poll::Ready(Some(bytes)) => return ready(bytes),
                    Poll::Ready(None) => {
                        script.0.pop_front();
                    }
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}
