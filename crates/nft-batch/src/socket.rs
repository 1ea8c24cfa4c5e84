//! The one netlink socket of a connection.

use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Instant, SystemTime};

use netlink_sys::protocols::NETLINK_NETFILTER;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force, socket_send_buffer_size,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::record::Recorder;
use crate::transport::{Datagram, Transport, Wait};
use crate::{Errno, OpenError};

/// `netlink_sendmsg()` refuses datagrams longer than the send buffer less this.
const SEND_BUFFER_OVERHEAD: usize = 32;

/// The largest send buffer that can be asked for (`sock_setsockopt`: INT_MAX / 2, then doubled).
const SEND_BUFFER_MAX: usize = 0x3fff_ffff;

/// Receive buffer asked for: room for the errors of a few thousand bad messages (an error holds
/// about 800 bytes of it). Replies beyond are lost and the loss is reported.
const RECV_BUFFER: usize = 4 << 20;

/// What [`Transport::recv`] says when the time is over.
pub(crate) const ETIMEDOUT: Errno = Errno(110);

/// Owns the descriptor and never hands it out: `netlink_sys::Socket` is `Clone` over a descriptor
/// that each clone closes.
pub struct Socket {
    inner: netlink_sys::Socket,
    port: u32,
    send_limit: usize,
    recorder: Option<Recorder>,
}

impl core::fmt::Debug for Socket {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Socket")
            .field("port", &self.port)
            .field("send_limit", &self.send_limit)
            .finish_non_exhaustive()
    }
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace, with short replies
    /// (`NETLINK_CAP_ACK`) and extended errors (`NETLINK_EXT_ACK`).
    ///
    /// # Errors
    /// [`OpenError::Socket`] naming the call that failed.
    pub fn open() -> Result<Self, OpenError> {
        let fail = |call| {
            move |error: std::io::Error| OpenError::Socket {
                call,
                errno: io_errno(&error),
            }
        };
        let mut inner = netlink_sys::Socket::new(NETLINK_NETFILTER).map_err(fail("socket"))?;
        let port = inner.bind_auto().map_err(fail("bind"))?.port_number();
        inner
            .set_cap_ack(true)
            .map_err(fail("setsockopt NETLINK_CAP_ACK"))?;
        inner
            .set_ext_ack(true)
            .map_err(fail("setsockopt NETLINK_EXT_ACK"))?;
        let mut socket = Self {
            inner,
            port,
            send_limit: 0,
            recorder: None,
        };
        let call = "setsockopt SO_RCVBUF";
        socket
            .grow_recv_buffer(RECV_BUFFER)
            .map_err(|errno| OpenError::Socket { call, errno })?;
        socket.send_limit = socket
            .read_send_limit()
            .map_err(|errno| OpenError::Socket {
                call: "getsockopt SO_SNDBUF",
                errno,
            })?;
        Ok(socket)
    }

    /// Opens a socket in the network namespace behind `netns` (an open `/run/netns/NAME` or
    /// `/proc/PID/ns/net`). The calling thread stays where it is: the socket is made by a thread
    /// of its own, which ends afterwards.
    ///
    /// # Errors
    /// [`OpenError::Namespace`] when the namespace cannot be entered, else as [`Socket::open`].
    pub fn open_in(netns: BorrowedFd<'_>) -> Result<Self, OpenError> {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    move_into_link_name_space(netns, Some(LinkNameSpaceType::Network)).map_err(
                        |errno| OpenError::Namespace {
                            errno: sys_errno(errno),
                        },
                    )?;
                    Self::open()
                })
                .join()
                .unwrap_or(Err(OpenError::Thread))
        })
    }

    /// Has everything that is sent and received from now on taken down, or with `None` no longer.
    pub fn record(&mut self, recorder: Option<Recorder>) {
        self.recorder = recorder;
    }

    pub(crate) fn join_group(&mut self, group: u32) -> Result<(), Errno> {
        let joined = self.inner.add_membership(group);
        joined.map_err(|error| io_errno(&error))
    }

    pub(crate) fn grow_recv_buffer(&mut self, bytes: usize) -> Result<(), Errno> {
        if set_socket_recv_buffer_size_force(&self.inner, bytes).is_err() {
            // Clamped to net.core.rmem_max; whatever it gives is enough for one ack.
            set_socket_recv_buffer_size(&self.inner, bytes).map_err(sys_errno)?;
        }
        Ok(())
    }

    /// To be polled; never to be received from.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }

    fn read_send_limit(&self) -> Result<usize, Errno> {
        let size = socket_send_buffer_size(&self.inner).map_err(sys_errno)?;
        Ok(size.saturating_sub(SEND_BUFFER_OVERHEAD))
    }

    fn wait_readable(&self, until: Option<Instant>) -> Result<(), Errno> {
        let timeout = match until {
            None => None,
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                Some(timespec(left))
            }
        };
        let mut fds = [PollFd::from_borrowed_fd(self.inner.as_fd(), PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()).map_err(sys_errno)? {
            0 => Err(ETIMEDOUT),
            _ => Ok(()),
        }
    }
}

impl Transport for Socket {
    fn port(&self) -> u32 {
        self.port
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        // Unconnected netlink sockets send to the kernel.
        let mut control = SendAncillaryBuffer::default();
        let mut send =
            || sendmsg(&self.inner, parts, &mut control, SendFlags::empty()).map_err(sys_errno);
        let Some(recorder) = &self.recorder else {
            return send();
        };
        let (when, started) = (SystemTime::now(), Instant::now());
        let result = send();
        recorder.sent(self.port, parts, when, started.elapsed(), result);
        result
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        if let Wait::Until(until) = wait {
            self.wait_readable(until)?;
        }
        let capacity = buf.len();
        let mut control = RecvAncillaryBuffer::default();
        let received = recvmsg(
            &self.inner,
            &mut [IoSliceMut::new(&mut *buf)],
            &mut control,
            RecvFlags::DONTWAIT | RecvFlags::TRUNC,
        )
        .map_err(sys_errno)?;
        let sender = received
            .address
            .and_then(|address| SocketAddrNetlink::try_from(address).ok());
        let len = received.bytes.min(capacity);
        if let Some(recorder) = &self.recorder {
            let bytes = buf.get(..len).unwrap_or_default();
            recorder.received(self.port, bytes, received.bytes);
        }
        Ok(Datagram {
            len,
            truncated: received.flags.contains(ReturnFlags::TRUNC) || received.bytes > capacity,
            // Without an address the sender is unknown, hence not the kernel.
            sender: sender.map_or(u32::MAX, |address| address.pid()),
        })
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        if len > self.send_limit {
            let size = len.saturating_add(SEND_BUFFER_OVERHEAD);
            // The kernel doubles what it is given.
            let ask = size.div_ceil(2).min(SEND_BUFFER_MAX);
            if set_socket_send_buffer_size_force(&self.inner, ask).is_err() {
                // Not allowed (a user namespace): clamped to net.core.wmem_max, then doubled.
                set_socket_send_buffer_size(&self.inner, ask).map_err(sys_errno)?;
            }
            self.send_limit = self.read_send_limit()?;
        }
        Ok(self.send_limit)
    }
}

fn sys_errno(errno: rustix::io::Errno) -> Errno {
    Errno(errno.raw_os_error())
}

/// netlink-sys reports nothing but errors of system calls.
fn io_errno(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EINVAL.0))
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
