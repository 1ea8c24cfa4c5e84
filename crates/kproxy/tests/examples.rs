//! The example does what it says.

#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn another_program_embeds_the_engine() {
    test_support::in_new_netns(|| {
        let told = embed::embed().unwrap();
        let all = told.join("\n");
        assert!(
            all.contains("10.244.0.1:8080") && all.contains("10.244.0.2:8080"),
            "{all}"
        );
        assert!(all.contains("(50 %)"), "{all}");
    });
}
