-- |
-- Module      : Heddle.Gateway.Failure
-- Description : Why a program or an upstream server gave no answer
-- Stability   : stable
--
-- Each way in which a gateway fails, the status that the client gets for it, and the words for the log.
--
-- Cost: none; values.
-- Owner: values.
module Heddle.Gateway.Failure
  ( Failure (..),
    failureStatus,
    describeFailure,
  )
where

import Heddle.Http (Status, status502, status503, status504)

-- | What went wrong behind the server, before a byte of the answer had gone to the client. Afterwards the connection is
-- cut short, and the failure is only logged.
data Failure
  = -- | It could not be reached or started; the reason of the system.
    Unreachable !String
  | -- | It ended, or closed its connection, before its answer was whole.
    EndedEarly
  | -- | Its answer cannot be understood; what is wrong with it.
    BadAnswer !String
  | -- | It was silent for longer than it may be.
    TooLate
  | -- | There are as many requests to it as there may be, and the queue is full.
    TooBusy
  | -- | It was not asked, since the server could not keep the request's content meanwhile; what went wrong.
    NotKept !String
  deriving stock (Eq, Show)

-- | [Cost] None.
failureStatus :: Failure -> Status
failureStatus = \case
  Unreachable _ -> status502
  EndedEarly -> status502
  BadAnswer _ -> status502
  TooLate -> status504
  TooBusy -> status503
  NotKept _ -> status503

-- | For a log: a clause without a full stop.
--
-- [Cost] The text.
describeFailure :: Failure -> String
describeFailure = \case
  Unreachable why -> "cannot be reached: " ++ why
  EndedEarly -> "ended before its answer was whole"
  BadAnswer why -> "gave an answer that is not understood: " ++ why
  TooLate -> "did not answer in time"
  TooBusy -> "has as many requests as it may have"
  NotKept why -> "was not asked: " ++ why
