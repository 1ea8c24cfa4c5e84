//! Reads all rules of this network namespace and prints them as `nft --debug=netlink` does. Needs
//! CAP_NET_ADMIN: `sudo cargo run -p nl-codec --example dump`.

use core::error::Error;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use nl_codec::SliceCursor;
use nl_codec::ack::{Control, Errno};
use nl_codec::msg::{Family, Flags, Head, Messages, NftMsg, put_message};
use nl_codec::nft::Rule;
use nl_codec::pretty::RuleText;

fn main() -> Result<(), Box<dyn Error>> {
    run()
}

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;

    let mut buf = [0; 64];
    let mut cursor = SliceCursor::new(&mut buf);
    let head = Head::nft(NftMsg::GET_RULE, Family::UNSPEC).with_flags(Flags::DUMP);
    put_message(&mut cursor, &head, &Rule::default())?;
    socket.send(cursor.written(), 0)?;

    loop {
        let (datagram, _) = socket.recv_from_full()?;
        if print(&datagram)? {
            return Ok(());
        }
    }
}

/// Whether the dump has ended.
fn print(datagram: &[u8]) -> Result<bool, Box<dyn Error>> {
    for message in Messages::new(datagram) {
        let message = message?;
        if message.header.flags.contains(Flags::DUMP_INTR) {
            return Err("the rules changed meanwhile; try again".into());
        }
        match Control::decode(&message)? {
            Some(Control::Done(done)) => return succeeded(done.error),
            Some(Control::Ack(ack)) => return succeeded(ack.error),
            Some(_) => {}
            None => {
                let message = message.nfnetlink()?;
                let rule: Rule<'_> = message.body()?;
                let family = message.nfgen.family;
                let rule = &rule;
                println!("{}", RuleText { family, rule });
            }
        }
    }
    Ok(false)
}

fn succeeded(error: Option<Errno>) -> Result<bool, Box<dyn Error>> {
    match error {
        Some(errno) => Err(format!("the kernel says {errno}").into()),
        None => Ok(true),
    }
}
