//! The example does what it says.

#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/plan.rs"]
mod plan;

#[test]
fn a_change_costs_little_and_no_change_nothing() {
    let story = plan::tell();
    let lengths: Vec<usize> = story.iter().map(|(_, it)| it.concat().len()).collect();
    let [all, less, same] = lengths.as_slice() else {
        panic!("{story:?}");
    };
    assert!(*less > 0 && less * 4 < *all, "{lengths:?}");
    assert_eq!(*same, 0, "{:?}", story.last());
}
