//! What the probe says about the running kernel, and that it leaves nothing behind.

mod support;

use nft_batch::Capabilities;
use nl_codec::msg::Family;
use support::*;

#[test]
fn the_probe_finds_what_is_there_and_leaves_nothing() {
    with_connection(|mut connection| {
        let generation = connection.generation().unwrap();
        let capabilities = Capabilities::probe(&mut connection).unwrap();
        assert_eq!(connection.generation().unwrap(), generation);
        let mut tables = 0;
        let dump = connection.dump_tables(Family::UNSPEC, |_, _| tables += 1);
        assert!(dump.unwrap().consistent);
        assert_eq!(tables, 0);

        // Tests run on kernels that can run a Service proxy.
        assert_eq!(capabilities.missing, []);
        let kernel = &capabilities.kernel;
        for (has, major, minor, what) in [
            (capabilities.table_owner, 5, 12, "owner"),
            (capabilities.destroy, 6, 3, "destroy"),
            (capabilities.table_persist, 6, 9, "persist"),
            (capabilities.batch_end_ack, 6, 10, "end ack"),
            (capabilities.bitwise_registers, 6, 13, "bitwise"),
        ] {
            // Distributions take features back to older kernels, never away from newer ones.
            assert!(has || !kernel.at_least(major, minor), "{what} on {kernel}");
        }
        assert_eq!(capabilities.batch_options().destroy, capabilities.destroy);
    });
}
