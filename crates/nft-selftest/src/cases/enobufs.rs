//! A receive buffer that is full.

use nft_batch::{Errno, Socket, Transport as _, Wait};
use nl_codec::msg::NftMsg;

use crate::Stop;
use crate::bench::{Bench, elements, row};
use crate::case::cases;
use crate::raw::{Raw, send, system};
use crate::verdict::{Verdict, check, check_eq};

cases! {"enobufs":
    replies_that_do_not_fit_are_lost_and_the_commit_stays,
    a_refused_batch_with_lost_replies_stays_refused,
}

/// More acks than the receive buffer holds. The loss is said once; true if it was said.
fn flood(socket: &mut Socket, last: &[nl_codec::nft::Elem<'_>]) -> Result<bool, Stop> {
    let mut raw = Raw::new();
    for number in 0..12_000 {
        let rows = [row(number, number)];
        raw = raw.new_(NftMsg::NEW_SETELEM, &elements(Some("m"), None, &rows));
    }
    let raw = raw.new_(NftMsg::NEW_SETELEM, &elements(Some("m"), None, last));
    let (bytes, count) = raw.bytes(true)?;
    let limit = socket
        .reserve(bytes.len())
        .map_err(|errno| system("a larger send buffer", errno))?;
    if limit < bytes.len() {
        return Err(Stop::skip(format!(
            "not privileged: batches of {limit} bytes at most"
        )));
    }
    send(socket, &bytes)?;
    let (mut lost, mut seen) = (false, 0_u32);
    let mut buf = vec![0; 1 << 16];
    loop {
        match socket.recv(&mut buf, Wait::No) {
            Ok(_) => seen += 1,
            Err(Errno::ENOBUFS) => lost = true,
            Err(Errno::EAGAIN) => break,
            Err(errno) => return Err(system("receive", errno)),
        }
    }
    check!(
        lost == (seen < count),
        "lost: {lost}, {seen} of {count} replies"
    );
    Ok(lost)
}

fn replies_that_do_not_fit_are_lost_and_the_commit_stays(b: &mut Bench) -> Verdict {
    b.basics()?;
    let lost = flood(&mut b.socket, &[row(50_000, 1)])?;
    check!(lost, "the buffer held all replies");
    check_eq!(b.value(50_000)?, Some(1));
    check_eq!(b.value(11_999)?, Some(11_999));
    Ok(())
}

fn a_refused_batch_with_lost_replies_stays_refused(b: &mut Bench) -> Verdict {
    b.basics()?;
    let lost = flood(&mut b.socket, &[row(0, 1)])?;
    check!(lost, "the buffer held all replies");
    check_eq!(b.count("m")?, 0);
    Ok(())
}
