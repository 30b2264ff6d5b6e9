-- |
-- Module      : Network.Wai.Handler.Heddle.Exchange
-- Description : The state of one request and its response
-- Stability   : hidden
--
-- An engine's request ends with its handler; a WAI request and its respond function are values that
-- an application can keep, and use from any thread. An 'Exchange' stands between them: every use of
-- the connection is counted, none begins after the application has returned, and the
-- application's thread waits for those under way before the engine goes on.
--
-- Cost: 140 bytes a request, and two atomic additions for each use.
-- Owner: the application's thread; any thread may use it.
module Network.Wai.Handler.Heddle.Exchange
  ( Exchange,
    exchangeRequest,
    newExchange,

    -- * Using the connection
    using,
    enter,
    leave,
    finishUses,

    -- * The response
    Progress (..),
    progress,
    beginResponse,
    setProgress,

    -- * The body's pace
    pauseTimeouts,
    bodyRequest,
  )
where

import Control.Monad (unless, when)
import Data.Bits ((.&.))
import Heddle.Http (Request, unpaced)
import Heddle.Http.Borrowed (abortRequest)
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
import Heddle.Prim.WaitCell (WaitCell, newWaitCell, park, unpark)

-- | One request and its response; see Note [Uses].
data Exchange = Exchange
  { exchangeRequest :: !Request,
    -- | Word 0: the 'Progress'; 1: 1 when time-outs are paused; 2: uses under way, and 'ended'.
    exchangeWords :: !Words,
    -- | Where the application's thread waits for the last use.
    exchangeCell :: !WaitCell
  }

-- | How far the response is.
data Progress
  = -- | None, or one that failed before a byte of it was sent.
    Awaited
  | -- | A thread is sending it.
    Responding
  | -- | It was sent.
    Responded
  | -- | A part of it was sent.
    Failed
  deriving stock (Bounded, Enum, Eq, Show)

-- | The exchange of a request that has just come.
newExchange :: Request -> IO Exchange
newExchange request = Exchange request <$> newWords 3 <*> newWaitCell
-- Inlined, closures over an exchange would hold its fields instead.
{-# NOINLINE newExchange #-}

-- Set in word 2 when the application has returned.
ended :: Int
ended = 0x100000000

-- | Use the connection, unless the application has returned: then do the other thing.
--
-- [Masking]: the action runs in the caller's state.
using :: Exchange -> IO a -> IO a -> IO a
using exchange late act = mask $ \restore -> do
  entered <- enter exchange
  if entered
    then do
      r <- restore act `onException` leave exchange
      r <$ leave exchange
    else restore late

-- | Begin a use, which 'leave' must end; 'False' if the application has returned. For callers that
-- are masked.
enter :: Exchange -> IO Bool
enter exchange = do
  before <- fetchAdd (exchangeWords exchange) 2 1
  if before .&. ended == 0 then pure True else False <$ leave exchange

-- | End a use.
leave :: Exchange -> IO ()
leave exchange = do
  before <- fetchAdd (exchangeWords exchange) 2 (-1)
  when (before == ended + 1) (unpark (exchangeCell exchange))

-- | Let no further use begin. If some are under way, close the connection, which ends them, and wait;
-- 'True' then.
--
-- [Blocks]: parks, not interruptibly: until the last use has ended the engine's memory is in use.
finishUses :: Exchange -> IO Bool
finishUses exchange = do
  before <- fetchOr (exchangeWords exchange) 2 ended
  let idle = before .&. (ended - 1) == 0
  unless idle . uninterruptibleMask_ $ do
    abortRequest (exchangeRequest exchange)
    wait
  pure (not idle)
  where
    wait = do
      now <- atomicRead (exchangeWords exchange) 2
      unless (now == ended) (park (exchangeCell exchange) >> wait)

-- | How far the response is.
progress :: Exchange -> IO Progress
progress exchange = toEnum <$> readWord (exchangeWords exchange) 0

-- | From 'Awaited' to 'Responding'; 'False' if it was not awaited.
beginResponse :: Exchange -> IO Bool
beginResponse exchange = compareAndSet (exchangeWords exchange) 0 (fromEnum Awaited) (fromEnum Responding)

-- | From 'Responding' to another.
setProgress :: Exchange -> Progress -> IO ()
setProgress exchange = atomicWrite (exchangeWords exchange) 0 . fromEnum

-- | From now on the body may come as slowly as the client likes.
pauseTimeouts :: Exchange -> IO ()
pauseTimeouts exchange = writeWord (exchangeWords exchange) 1 1

-- | The request to read the body from.
bodyRequest :: Exchange -> IO Request
bodyRequest exchange = do
  paused <- readWord (exchangeWords exchange) 1
  pure (if paused == 1 then unpaced (exchangeRequest exchange) else exchangeRequest exchange)

-- Note [Uses]
-- ~~~~~~~~~~~
-- Word 2 counts the uses under way in its low half; 'ended' is added by 'finishUses', once, when
-- the application has returned. A use that sees 'ended' gives its count back and touches nothing.
-- The thread that takes the count to 'ended' alone unparks the cell, so 'finishUses', which
-- looks again after each token, cannot miss the last one. A use that came late may unpark a cell
-- that nobody waits on; the token is never taken, and the cell is garbage with the exchange.
