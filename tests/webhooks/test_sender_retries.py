from tests.webhooks.letters import answer, answers
from tests.world.receiver import Script
from webhooks.models import Attempt

E = Attempt.Error


def test_closed_kept_connection_is_no_failure(receiver, post):
    assert answer(post, receiver.url()).error == ""
    receiver.drop_connections()

    assert answer(post, receiver.url()).error == ""
    assert [got.connection for got in receiver.received] == [1, 2]


def closes_the_second_time(received):
    return Script(cut_after=0) if received.connection == 1 else Script()


def test_request_on_a_stale_connection_is_sent_again(receiver, post):
    receiver.scripts["/again"] = closes_the_second_time
    assert answer(post, receiver.url()).error == ""

    assert answer(post, receiver.url("/again")).error == ""
    assert [got.connection for got in receiver.received] == [1, 1, 2]


def test_second_request_uses_a_new_connection(receiver, post):
    receiver.scripts["/slow"] = Script(drip=0.002)
    receiver.scripts["/again"] = lambda received: (
        Script(cut_after=0) if received.connection <= 2 else Script()
    )
    answers(post, receiver.url("/slow"), receiver.url("/slow"))
    assert receiver.connections == 2

    assert answer(post, receiver.url("/again")).error == ""
    assert receiver.connections == 3


def test_request_is_sent_at_most_twice(receiver, post):
    receiver.scripts["/never"] = Script(cut_after=0)
    answers(post, *[receiver.url()] * 5)

    assert answer(post, receiver.url("/never")).error == E.BROKEN
    assert sum(got.path == "/never" for got in receiver.received) == 2


def test_request_with_a_begun_answer_is_not_sent_again(receiver, post):
    receiver.scripts["/begun"] = Script(cut_after=45, body=b"x" * 100)
    answer(post, receiver.url())

    assert answer(post, receiver.url("/begun")).error == E.BROKEN
    assert sum(got.path == "/begun" for got in receiver.received) == 1


def test_second_request_does_not_move_the_deadline(receiver, hurried):
    def late(received):
        return Script(cut_after=0) if received.connection == 1 else Script(hangs=True)

    answer(hurried, receiver.url())
    receiver.scripts["/late"] = late

    said = answer(hurried, receiver.url("/late"))

    assert said.error == E.TIMED_OUT
    assert said.duration_ms < 900
