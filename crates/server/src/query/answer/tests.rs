use axum::body::HttpBody as _;
use http_body_util::BodyExt as _;
use icecore_model::Labels;
use tokio::sync::Semaphore;

use super::*;

fn answer(value: QueryValue) -> QueryAnswer {
    QueryAnswer {
        answer: Answer {
            value,
            warnings: Vec::new(),
            infos: Vec::new(),
            stats: Stats::default(),
        },
        explain: None,
        time: QueryTime::Instant { time_ms: 0 },
        stats: None,
        columns: false,
        queued: Duration::ZERO,
    }
}

async fn sent(answer: QueryAnswer) -> Response {
    let slots = Arc::new(Semaphore::new(1));
    let slot = slots.acquire_owned().await.unwrap();
    answer.respond(slot).await.unwrap()
}

fn vector(count: usize) -> QueryValue {
    let sample = |i: usize| VectorSample {
        labels: Labels::from_pairs([("instance", format!("host-{i}"))]),
        time_ms: 1000,
        value: SampleValue::Float(i as f64),
    };
    QueryValue::Vector((0..count).map(sample).collect())
}

async fn json(response: Response) -> serde_json::Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn short_answers_have_a_length() {
    let response = sent(answer(vector(2))).await;
    assert!(response.body().size_hint().exact().is_some());
    let json = json(response).await;
    assert_eq!(json["data"]["resultType"], "vector");
    assert_eq!(json["data"]["result"][1]["value"][1], "1");
    assert_eq!(json.get("warnings"), None);
}

#[tokio::test]
async fn short_and_long_answers_are_written_alike() {
    for values in [0, 1, 240, 250, 260, 2_000] {
        let (head, answered) = oneshot::channel();
        let long = answer(vector(values));
        std::thread::spawn(move || long.send(AnswerSender::new(head)));
        let long = answered.await.unwrap().into_body().collect().await;
        let short = sent(answer(vector(values))).await;
        let short = short.into_body().collect().await;
        assert_eq!(short.unwrap().to_bytes(), long.unwrap().to_bytes());
    }
}

#[tokio::test]
async fn a_slow_client_keeps_its_slot() {
    let slots = Arc::new(Semaphore::new(1));
    let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
    let response = answer(vector(50_000)).respond(slot).await.unwrap();
    assert_eq!(slots.available_permits(), 0);
    json(response).await;
    let freed = tokio::time::timeout(Duration::from_secs(120), slots.acquire()).await;
    assert!(freed.is_ok());
}

#[tokio::test]
async fn long_answers_come_in_pieces() {
    let response = sent(answer(vector(50_000))).await;
    assert!(response.body().size_hint().exact().is_none());
    let json = json(response).await;
    assert_eq!(json["data"]["result"].as_array().unwrap().len(), 50_000);
}

#[tokio::test]
async fn nobody_writes_for_a_client_that_has_gone() {
    let (head, answered) = oneshot::channel();
    let writing = std::thread::spawn(move || {
        let answer = answer(vector(200_000));
        answer.send(AnswerSender::new(head)).is_err()
    });
    let mut response = answered.await.unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    drop(response);
    assert!(writing.join().unwrap());
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_not_taken_for_whole() {
    let (head, answered) = oneshot::channel();
    std::thread::spawn(move || {
        let mut outgoing = AnswerSender::new(head);
        let _ = outgoing.flow(&mut vec![b'x'; PIECE_BYTES]);
    });
    let response = answered.await.unwrap();
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn what_is_said_beside_the_result() {
    let mut all = answer(QueryValue::Scalar {
        time_ms: 1500,
        value: 2.0,
    });
    all.answer.warnings = (0..12).map(|i| format!("w{i}")).collect();
    all.answer.infos = vec!["i".into()];
    all.answer.stats.samples_touched = 7;
    all.answer.stats.samples_per_step = vec![(1500, 7)];
    all.stats = Some(StatsDetail::PerStep);
    all.explain = Some("plan".into());
    let json = json(sent(all).await).await;
    assert_eq!(json["data"]["result"], serde_json::json!([1.5, "2"]));
    assert_eq!(json["data"]["explain"], "plan");
    let samples = &json["data"]["stats"]["samples"];
    assert_eq!(samples["totalQueryableSamples"], 7);
    let per_step = &samples["totalQueryableSamplesPerStep"];
    assert_eq!(*per_step, serde_json::json!([[1.5, 7]]));
    let warnings = json["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 11);
    assert_eq!(warnings[10], "2 more warning annotations omitted");
    assert_eq!(json["infos"], serde_json::json!(["i"]));
}
