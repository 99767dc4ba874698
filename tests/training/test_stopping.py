"""Requests to stop: which signals make one, what a second signal does, and that handlers are restored."""

import os
import signal
import threading

import pytest

from shoal.training.stopping import ANSWER, Stopped, stop_requests, stopped_at_once


def handler(signum, frame):
    raise AssertionError(f"signal {signum} was not noticed")


@pytest.fixture(autouse=True)
def _handlers():
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, old in before.items():
        signal.signal(number, old)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_requests_a_stop_and_a_second_sigterm_changes_nothing(number):
    said = []
    with stop_requests(said.append) as request:
        assert not request.is_set()
        os.kill(os.getpid(), number)
        assert request.is_set() and request.signal == number
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
    assert request.signal == number and said == [ANSWER.format("")]
    assert signal.getsignal(number) is handler


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_calls_the_previous_handler(first):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), stop_requests(lambda text: None):
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_sighup_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_requests(lambda text: None) as request:
        os.kill(os.getpid(), signal.SIGHUP)
    assert not request.is_set()


def test_outside_the_main_thread_no_handler_is_installed():
    def work():
        with stop_requests(lambda text: None) as request:
            found.append((request.is_set(), signal.getsignal(signal.SIGINT) is handler))

    found = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, True)]


def test_a_stopped_exception_keeps_its_signal():
    assert Stopped("text", signal.SIGTERM).signal == 15 and Stopped().signal == signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_block_that_has_nothing_to_save(number):
    with pytest.raises(Stopped, match="complete") as stopped, stopped_at_once("complete"):
        try:
            os.kill(os.getpid(), number)
            raise AssertionError("the signal was not noticed")
        except Exception as error:  # as figures and sinks, whose errors do not end a run
            raise AssertionError("the request was taken for an error") from error
    assert stopped.value.signal == number and signal.getsignal(number) is handler


def test_a_second_signal_while_a_block_ends_has_the_previous_handler():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), stopped_at_once("complete"):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
