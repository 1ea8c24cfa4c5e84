//! `cargo bench -p benches --bench codec`: encode and decode, beside the unchecked floor.

use core::hint::black_box;

use benches::codec::{Rows, decode_by_hand, decode_elements, decode_rows};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn codec(criterion: &mut Criterion) {
    let rows = Rows::default();
    let mut buf = vec![0; 1 << 17];
    let mut group = criterion.benchmark_group("1000 map elements");
    let len = rows.encode_unchecked(&mut buf);
    group.throughput(Throughput::Bytes(len as u64));
    group.bench_function("encode", |bencher| {
        bencher.iter(|| black_box(&rows).encode(black_box(&mut buf)));
    });
    group.bench_function("encode, unchecked floor", |bencher| {
        bencher.iter(|| black_box(&rows).encode_unchecked(black_box(&mut buf)));
    });
    group.bench_function("decode, rows", |bencher| {
        bencher.iter(|| decode_rows(black_box(&buf[..len])));
    });
    group.bench_function("decode, elements", |bencher| {
        bencher.iter(|| decode_elements(black_box(&buf[..len])));
    });
    group.bench_function("decode, by hand", |bencher| {
        bencher.iter(|| decode_by_hand(black_box(&buf[..len])));
    });
    group.finish();
}

criterion_group!(benches, codec);
criterion_main!(benches);
