//! The listing check itself: it passes rules that list, and finds those that make nft abort.

use anyhow::{Result, ensure};
use e2e::{listing, ruleset};
use netns_lab::Namespace;
use nft_batch::{Batch, BatchOptions, Connection};
use nl_codec::msg::Family;
use nl_codec::nft::expr::{Lookup, Payload, PayloadBase};
use nl_codec::nft::{Exprs, Register, Rule};

const RULES: &str = "table ip t {
    map services {
        type ipv4_addr . inet_proto . inet_service : mark
        elements = { 10.0.0.1 . tcp . 80 : 0x1 }
    }
    map addresses { type ipv4_addr : ipv4_addr; }
    map classes { type ipv4_addr : verdict; }
    chain c { ip daddr vmap @classes; }
}";

#[test]
fn rules_that_list() -> Result<()> {
    let namespace = Namespace::new("listing")?;
    ruleset::load(&namespace, RULES)?;
    let keys = [
        "type ipv4_addr . inet_proto . inet_service : mark",
        "@classes",
    ];
    listing::check(&namespace, &keys)?;
    let missing = listing::check(&namespace, &["type ipv6_addr"]);
    ensure!(missing.is_err(), "a text that is not there was not missed");
    Ok(())
}

/// A map's result fed straight into another lookup: the kernel takes it, and every nft aborts when
/// it lists the rule.
#[test]
fn a_chained_lookup_is_found() -> Result<()> {
    let namespace = Namespace::new("listing-abort")?;
    ruleset::load(&namespace, RULES)?;
    let exprs = [
        Payload::load(PayloadBase::NETWORK, 16, 4, Register::R1).into(),
        Lookup::map("addresses", Register::R1, Register::R1).into(),
        Lookup::map("classes", Register::R1, Register::VERDICT).into(),
    ];
    let mut batch = Batch::new(BatchOptions::default());
    batch.add_rule(Family::IPV4, &Rule::new("t", "c", Exprs::new(&exprs)))?;
    let mut connection = namespace.run(Connection::open)??;
    let outcome = connection.commit(&mut batch.seal());
    ensure!(outcome.is_committed(), "{outcome}");
    let listed = listing::check(&namespace, &[]);
    ensure!(listed.is_err(), "nft lists what it could not before");
    Ok(())
}
