from tests.gateways.langgraph.fixtures import HI, asking, talking


async def test_what_this_server_does_not_do_is_said_so() -> None:
    async with talking() as (_, served), asking(served) as http:
        for path in ("/threads/prune", "/runs/crons", "/assistants", "/runs/batch"):
            # The last one has a list as its body.
            answer = await http.post(path, json=[] if path.endswith("batch") else {})
            assert answer.status_code == 501
            assert "detail" in answer.json()
        refused = await http.post("/runs/wait", json={"assistant_id": "default", "input": HI, "webhook": "https://x.example"})
        assert refused.status_code == 501
        assert (await http.get("/nowhere")).json()["detail"]
