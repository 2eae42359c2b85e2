//! A prompt, a few decoded tokens, and a draft of which half is kept: cargo run --example decode
use skim::{Cache, Checkpoint, Model, Result, Sequence};

/// `tokens` new tokens of a sequence through all layers, of which `kept` stay.
fn feed(model: &Model, cache: &mut Cache, sequence: Sequence, tokens: i64, kept: i64) -> Result<Vec<u16>> {
    let mut states = skim::to_bf16(&vec![1.0; tokens as usize * model.dim()]); // yours: embeddings, normalized
    let mut batch = cache.begin(&[(sequence, tokens)])?;
    for &layer in model.layers() {
        batch.forward_in_place(layer, &mut states)?; // your MLP in between
    }
    batch.commit_sequence(sequence, kept)?;
    Ok(states)
}

fn main() -> Result<()> {
    let model = Model::new(&Checkpoint::synthetic("v41-tiny", 0)?)?;
    let mut cache = Cache::new(&model, 4096, 8)?;
    let sequence = cache.add()?;
    let prompt = feed(&model, &mut cache, sequence, 40, 40)?;
    assert!(skim::to_f32(&prompt).iter().all(|value| value.is_finite()));
    for _ in 0..4 {
        feed(&model, &mut cache, sequence, 1, 1)?;
    }
    let length = cache.length(sequence)?;
    let draft = cache.fork(sequence, length)?;
    feed(&model, &mut cache, draft, 6, 3)?;
    println!("{length} tokens, its fork {}", cache.length(draft)?);
    let error = cache.begin(&[(sequence, 1 << 20)]).err().expect("a million tokens are too many for this cache");
    println!("code {}: {error}", error.code);
    Ok(())
}
