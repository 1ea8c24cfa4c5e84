//! A server's segment that is far outside of the window is invalid to conntrack, and so not translated back:
//! the client sees it from a stranger, and ends the connection. `conntrack.tcpBeLiberal` keeps it.

use core::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    time::Duration,
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{folder::Folder, program::Program};
use netns_lab::{Probe, Topology, Transport, Verdict};
use rustix::{
    fd::OwnedFd,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, socket_with},
};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const PATIENCE: Duration = Duration::from_secs(60);
const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const POD: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const VIP: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 41);
/// Where the pod's own listener is; [`Topology::serve`]'s is at 8080.
const PORT: u16 = 9090;
const ACK: u8 = 0x10;
/// Further than any window.
const FAR: u32 = 1 << 30;

const MANIFESTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  clusterIP: 172.30.0.41
  ports: [{name: ready, port: 80}, {name: long, port: 81}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-a, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: ready, port: 8080}, {name: long, port: 9090}]
endpoints: [{addresses: [10.0.1.1]}]
"#;

/// What of a TCP header matters here.
#[derive(Debug, Clone, Copy)]
struct Segment {
    from: u16,
    to: u16,
    sequence: u32,
    acknowledged: u32,
    /// Bytes of data.
    length: u32,
}

impl Segment {
    /// That of an IPv4 packet, as a raw socket receives it.
    fn of(packet: &[u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 0xf) * 4;
        let tcp = packet.get(header..)?;
        let word = |at: usize| Some(u16::from_be_bytes(tcp.get(at..at + 2)?.try_into().ok()?));
        let long = |at: usize| Some(u32::from_be_bytes(tcp.get(at..at + 4)?.try_into().ok()?));
        let data = usize::from(tcp.get(12)? >> 4) * 4;
        Some(Self {
            from: word(0)?,
            to: word(2)?,
            sequence: long(4)?,
            acknowledged: long(8)?,
            length: u32::try_from(tcp.len().checked_sub(data)?).ok()?,
        })
    }

    /// A header without options, with its checksum (RFC 9293, 3.1).
    fn bytes(self, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
        let mut bytes = [self.from.to_be_bytes(), self.to.to_be_bytes()].concat();
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledged.to_be_bytes());
        // Five words of header; a window; checksum and urgent pointer.
        bytes.extend([5 << 4, ACK, 0xff, 0xff, 0, 0, 0, 0]);
        let length = u8::try_from(bytes.len()).unwrap_or_default();
        let pseudo = [&source.octets()[..], &target.octets(), &[0, 6, 0, length]].concat();
        let words = pseudo.chunks(2).chain(bytes.chunks(2));
        let sum: u32 = words
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or_default();
        bytes[16..18].copy_from_slice(&(!folded).to_be_bytes());
        bytes
    }
}

/// A node with a Service and a long-lived connection through it.
struct Setting {
    topology: Topology,
    client: TcpStream,
    server: TcpStream,
    raw: OwnedFd,
    _kproxy: Program,
    _folder: Folder,
}

impl Setting {
    fn new(liberal: bool) -> Result<Self> {
        let topology = Topology::builder()
            .node([NODE.into()])
            .host("client", [CLIENT.into()])
            .host("pod", [POD.into()])
            .build()?;
        topology.serve("pod", Transport::Tcp, 8080)?;
        let folder = Folder::new()?;
        let manifests = folder.path().join("manifests");
        fs::create_dir(&manifests)?;
        fs::write(manifests.join("all.yaml"), MANIFESTS)?;
        let config = folder.path().join("config.conf");
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
             mode: nftables\nhealthzBindAddress: 127.0.0.1:10256\n\
             conntrack: {{maxPerCore: 0, min: 0, tcpBeLiberal: {liberal}}}\n"
        );
        fs::write(&config, text)?;
        let mut command = Command::new(KPROXY);
        command
            .arg(format!("--config={}", config.display()))
            .arg(format!("--source=dir:{}", manifests.display()))
            .arg(format!(
                "--state-dir={}",
                folder.path().join("state").display()
            ))
            .args(["--hostname-override=node-a", "--seccomp=kill"]);
        let log = folder.path().join("log");
        let kproxy = Program::start(topology.node(), command, &log)?;
        until_served(&topology, &kproxy)?;
        let pod = topology.host("pod")?.namespace();
        let (raw, listener) = pod.run(|| -> Result<_> {
            let raw = socket_with(
                AddressFamily::INET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(ipproto::TCP),
            )?;
            Ok((raw, TcpListener::bind((POD, PORT))?))
        })??;
        let client = topology.host("client")?.namespace();
        let client = client
            .run(|| TcpStream::connect((VIP, 81)))?
            .with_context(|| kproxy.log().unwrap_or_default())?;
        let (server, _) = listener.accept()?;
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        }
        Ok(Self {
            topology,
            client,
            server,
            raw,
            _kproxy: kproxy,
            _folder: folder,
        })
    }

    /// Sends a line through the connection and back.
    fn echo(&mut self) -> Result<()> {
        let mut line = [0; 4];
        self.client.write_all(b"ping")?;
        self.server.read_exact(&mut line)?;
        self.server.write_all(&line)?;
        self.client.read_exact(&mut line)?;
        ensure!(&line == b"ping");
        Ok(())
    }

    /// Has the pod send a segment of this connection that is far outside of the window.
    fn inject(&self) -> Result<()> {
        let port = self.client.local_addr()?.port();
        let mut packet = [0; 256];
        // All that the client has sent in the echo is here already.
        let last = loop {
            let (length, _) = rustix::net::recv(&self.raw, &mut packet[..], RecvFlags::DONTWAIT)
                .context("no segment of the connection was seen")?;
            let segment = packet.get(..length).and_then(Segment::of);
            let of_ours = segment.filter(|it| (it.from, it.to) == (port, PORT));
            if let Some(segment) = of_ours.filter(|it| it.length > 0) {
                break segment;
            }
        };
        let late = Segment {
            from: PORT,
            to: port,
            sequence: last.acknowledged.wrapping_add(FAR),
            // The client ends the connection by a number that the server believes.
            acknowledged: last.sequence.wrapping_add(last.length),
            length: 0,
        };
        let target = SocketAddr::V4(SocketAddrV4::new(CLIENT, 0));
        let bytes = late.bytes(POD, CLIENT);
        rustix::net::sendto(&self.raw, &bytes, SendFlags::empty(), &target)
            .context("send the segment")?;
        Ok(())
    }
}

fn until_served(topology: &Topology, kproxy: &Program) -> Result<()> {
    let probe = Probe {
        transport: Transport::Tcp,
        to: SocketAddr::new(VIP.into(), 80),
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Until then the address is nobody's: the sink behind the node answers, or it is refused.
        match topology.probe("client", probe, Duration::from_millis(200))? {
            Verdict::Answered(answer) if &*answer.by == "pod" => return Ok(()),
            verdict if Instant::now() > deadline => bail!("{verdict:?}\n{}", kproxy.tail()?),
            _ => {}
        }
    }
}

/// Whether a connection outlives such a segment.
fn outlives(liberal: bool) -> Result<bool> {
    let mut setting = Setting::new(liberal)?;
    let path = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal";
    let set = setting
        .topology
        .node()
        .run(move || fs::read_to_string(path))??;
    ensure!(
        set.trim() == if liberal { "1" } else { "0" },
        "{path} is {set}"
    );
    setting.echo().context("before")?;
    setting.inject()?;
    // The segment and what it provokes are through when these are, if they are.
    Ok((0..3).all(|_| setting.echo().is_ok()))
}

#[test]
fn an_invalid_segment_ends_no_connection_if_conntrack_is_liberal() -> Result<()> {
    if !test_support::has_netns() {
        return Ok(());
    }
    ensure!(Path::new(KPROXY).is_file());
    ensure!(outlives(true)?, "ended in spite of tcpBeLiberal");
    ensure!(
        !outlives(false)?,
        "nothing happened without tcpBeLiberal either: the test shows nothing"
    );
    Ok(())
}
