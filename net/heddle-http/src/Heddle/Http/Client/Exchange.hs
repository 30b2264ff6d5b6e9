{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Client.Exchange
-- Description : The state of one request on one connection, and its response's head
-- Stability   : hidden; "Heddle.Http.Client" uses it
--
-- Reads interim responses and the head of the final one. "Heddle.Http.Client.Sending" sends the request.
--
-- A request on a new connection that hears nothing says so, for the server may not have taken the connection up
-- ("Heddle.Http.Client.Width"); a connection that has answered before has been.
--
-- Invariant: unread input lies from 'WorkStart' to 'WorkEnd' of the workspace; the head being parsed, or
-- parsed last, begins at 'WorkBase'.
-- Cost: two system calls for a request without a body and a response that fits the buffer.
-- Owner: the thread that makes the request.
module Heddle.Http.Client.Exchange
  ( -- * Exchanges
    Exchange (..),
    newExchange,

    -- * Flags
    pattern FlagOver,
    pattern FlagKeeps,
    pattern FlagHeard,
    pattern FlagSent,
    pattern FlagReturned,
    pattern FlagCut,
    pattern FlagTaken,
    flag,
    setFlag,

    -- * Waits
    earlier,
    takeIn,
    readAttended,
    deadlineSoon,
    untakenUntil,
    notTaken,
    pattern GivenUpCode,

    -- * The head of the response
    awaitHead,
    answered,
    progress,
    makeHeadRoom,
    pattern FlagContinue,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.Foldable (for_)
import Data.Maybe (isJust)
import Data.Word (Word8)
import Foreign.Marshal.Utils (moveBytes)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Http.Client.Answer
import Heddle.Http.Client.Ask
import Heddle.Http.Client.Connect (failureOf)
import Heddle.Http.Client.Error
import Heddle.Http.Client.Settings
import Heddle.Http.Framing (Persistence (..), persistenceOf)
import Heddle.Http.Head (copySlice, foldHeaders, startHead)
import Heddle.Http.Workspace
import Heddle.IO.Registration (Registration, freshNow, pattern TimedOutCode)
import Heddle.IO.Transport
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Clock (Deadline (..), after, milliseconds, monotonicNow, never)
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception

-- | A request under way.
data Exchange = Exchange
  { exchangeSettings :: !ClientSettings,
    -- | Without its body.
    exchangeRequest :: !ClientRequest,
    -- | The body that is still to be sent. One that cannot be repeated is taken out to be sent, so that nothing keeps what it
    -- makes.
    exchangeBody :: !(Ref RequestBody),
    exchangePrepared :: !Prepared,
    exchangeTransport :: !Transport,
    exchangeWork :: !Workspace,
    exchangeFlags :: !Words,
    -- | The final head, or what is wrong, once it is known.
    exchangeAnswer :: !(Ref (Maybe Content)),
    -- | Trailer lines in pieces, the last one first.
    exchangeTrailers :: !(Ref [ByteString]),
    -- | The caller's masking state, for its own actions.
    exchangeRestore :: !(IO () -> IO ()),
    -- | On a new connection, what to do when the server is silent, for it may not have taken the connection up; and how often that
    -- was done before.
    exchangeNotTaken :: !(Maybe (Int -> IO ()))
  }

-- | 1 when the response may not be used any more.
pattern FlagOver :: Int
pattern FlagOver = 0

-- | 1 when the connection can be kept, as far as the request and the response's head say.
pattern FlagKeeps :: Int
pattern FlagKeeps = 1

-- | 1 when any byte of a response has come.
pattern FlagHeard :: Int
pattern FlagHeard = 2

-- | 1 when 100 (Continue) has come.
pattern FlagContinue :: Int
pattern FlagContinue = 3

-- | How many interim responses have come.
pattern FlagInterim :: Int
pattern FlagInterim = 4

-- | 1 when the whole request is sent.
pattern FlagSent :: Int
pattern FlagSent = 5

-- | 1 when the connection of a tunnel is the caller's to close.
pattern FlagTaken :: Int
pattern FlagTaken = 6

-- | 1 when a head announced content that its status forbids: what follows may be that content.
pattern FlagSpoilt :: Int
pattern FlagSpoilt = 7

-- | 1 when the connection has been returned to its pool, or closed, before the request's action has.
pattern FlagReturned :: Int
pattern FlagReturned = 8

-- | 1 when the content's end will not come.
pattern FlagCut :: Int
pattern FlagCut = 11

-- Of a new connection: when the server will have been silent for so long that the connection may not have been taken up, or 0; and how
-- often it was said.
pattern FlagUntaken, FlagUntakenTimes :: Int
pattern FlagUntaken = 9
pattern FlagUntakenTimes = 10

-- | Read a flag.
flag :: Exchange -> Int -> IO Int
flag ex = readWord (exchangeFlags ex)
{-# INLINE flag #-}

-- | Write a flag.
setFlag :: Exchange -> Int -> Int -> IO ()
setFlag ex = writeWord (exchangeFlags ex)
{-# INLINE setFlag #-}

-- | An exchange on a connection, with a workspace that nothing else uses; and on a new connection, what to do when it may not have been taken
-- up.
newExchange :: ClientSettings -> ClientRequest -> Ref RequestBody -> Prepared -> Transport -> Workspace -> (IO () -> IO ()) -> Maybe (Int -> IO ()) -> IO Exchange
newExchange settings request body prepared transport ws restore untaken = do
  set ws WorkStart 0
  set ws WorkEnd 0
  set ws WorkBase 0
  set ws WorkUsed 0
  set ws WorkLeft 0
  set ws WorkBodyBegan 0
  set ws WorkBodyGot 0
  startHead (workHead ws)
  flags <- newWords 12
  when (isJust untaken) $ do
    Deadline now <- monotonicNow
    writeWord flags FlagUntaken (now + silence)
  answer <- newRef Nothing
  trailers <- newRef []
  pure (Exchange settings request body prepared transport ws flags answer trailers restore untaken)
  where
    silence = 200000000

-- | When a new connection will count as not taken up; 'never' for one on which something has come.
untakenUntil :: Exchange -> IO Deadline
untakenUntil ex = do
  at <- flag ex FlagUntaken
  if at == 0
    then pure never
    else do
      heard <- flag ex FlagHeard
      pure (if heard == 1 then never else Deadline at)

-- | Say that it may not have been taken up; again after a second, and after twice the time each time.
notTaken :: Exchange -> IO ()
notTaken ex = do
  times <- flag ex FlagUntakenTimes
  for_ (exchangeNotTaken ex) ($ times)
  Deadline now <- monotonicNow
  setFlag ex FlagUntakenTimes (times + 1)
  setFlag ex FlagUntaken (now + 1000000000 * 2 ^ min 6 times)

-- | The earlier one of a deadline and the request's own.
earlier :: Exchange -> Deadline -> Deadline
earlier ex = min (requestUntil (exchangeRequest ex))
{-# INLINE earlier #-}

-- Heads ------------------------------------------------------------------------------------

-- | Receive what a read of at most the free room gives: its code. The read is given the address and the room,
-- which is at least 1 unless a head fills the buffer.
takeIn :: Exchange -> (Ptr Word8 -> Int -> IO Int) -> IO Int
takeIn ex receive = do
  end <- get ws WorkEnd
  r <- receive (inputPtr ws `plusPtr` end) (inputSize ws - end)
  when (r > 0) $ do
    set ws WorkEnd (end + r)
    setFlag ex FlagHeard 1
  pure r
  where
    ws = exchangeWork ex
{-# INLINE takeIn #-}

-- | When a wait that began now counts as long; see 'requestAttended'.
deadlineSoon :: Registration -> Deadline -> IO Deadline
deadlineSoon registration deadline = do
  now <- freshNow registration
  pure $! min deadline (after (milliseconds 20) now)
{-# INLINE deadlineSoon #-}

-- | Read until the deadline; a long wait is attended to. 'GivenUpCode' when it was given up.
readAttended :: Exchange -> Deadline -> Ptr Word8 -> Int -> IO Int
readAttended ex deadline p n = case requestAttended (exchangeRequest ex) of
  Nothing -> readTaken deadline
  Just attend -> do
    soon <- deadlineSoon registration deadline
    r <- readTaken soon
    if r == TimedOutCode && soon < deadline
      then do
        over <- attend registration
        s <- readTaken deadline `onException` over
        given <- over
        pure (if given then GivenUpCode else s)
      else pure r
  where
    readTaken until' = do
      untaken <- untakenUntil ex
      r <- readUntil transport p n (min until' untaken)
      if r == TimedOutCode && untaken < until' then notTaken ex >> readTaken until' else pure r
    transport = exchangeTransport ex
    registration = transportRegistration transport

-- | No system call answers with it: the request was given up.
pattern GivenUpCode :: Int
pattern GivenUpCode = -100012

-- | The head that is parsed moves to the front, when an interim response before it is done with.
makeHeadRoom :: Exchange -> IO ()
makeHeadRoom ex = do
  base <- get ws WorkBase
  end <- get ws WorkEnd
  when (base > 0) $ do
    moveBytes (inputPtr ws) (inputPtr ws `plusPtr` base) (end - base)
    set ws WorkBase 0
    set ws WorkEnd (end - base)
  where
    ws = exchangeWork ex

-- | Read up to the head of the final response, until the deadline. With a failure, it is the answer if nothing comes.
--
-- [Blocks]: parks.
awaitHead :: Exchange -> Maybe Failure -> Deadline -> IO (Either Failure Content)
awaitHead ex refusal deadline = go
  where
    go =
      progress ex >>= \case
        Just (ContentWrong fault) -> pure (Left (BadAnswer fault))
        Just content -> pure (Right content)
        Nothing -> do
          makeHeadRoom ex
          r <- takeIn ex (readAttended ex deadline)
          if r > 0
            then go
            else do
              base <- get (exchangeWork ex) WorkBase
              end <- get (exchangeWork ex) WorkEnd
              heard <- flag ex FlagHeard
              let stage = if heard == 1 || end > base then ReadingHead else AwaitingAnswer
              pure . Left $ case refusal of
                _ | r == GivenUpCode -> GivenUp
                Just failure | stage == AwaitingAnswer -> failure
                _ -> if r == 0 then Ended stage else failureOf stage r

-- | Parse what there is: what follows the final head once it is complete.
progress :: Exchange -> IO (Maybe Content)
progress ex =
  readRef (exchangeAnswer ex) >>= \case
    Just content -> pure (Just content)
    Nothing -> do
      base <- get ws WorkBase
      end <- get ws WorkEnd
      let p = inputPtr ws `plusPtr` base
      if end == base
        then pure Nothing
        else
          parseAnswer limits p (end - base) (workHead ws) >>= \case
            AnswerMore -> pure Nothing
            AnswerWrong fault -> decided (ContentWrong fault)
            AnswerDone n -> do
              content <-
                contentOf limits (preparedAsked (exchangePrepared ex)) p (workHead ws) >>= \case
                  Unkept content -> content <$ setFlag ex FlagSpoilt 1
                  content -> pure content
              case content of
                Interim -> do
                  count <- flag ex FlagInterim
                  setFlag ex FlagInterim (count + 1)
                  interim p
                  set ws WorkBase (base + n)
                  startHead (workHead ws)
                  if count >= 100 then decided (ContentWrong InterimFlood) else progress ex
                _ -> do
                  persistence <- persistenceOf p (workHead ws)
                  spoilt <- flag ex FlagSpoilt
                  setFlag ex FlagKeeps (if persistence == KeepAlive && spoilt == 0 then 1 else 0)
                  set ws WorkStart (base + n)
                  decided content
  where
    ws = exchangeWork ex
    limits = clientLimits (exchangeSettings ex)
    decided content = Just content <$ writeRef (exchangeAnswer ex) (Just content)
    interim p = do
      code <- answerCode (workHead ws)
      if code == 100
        then setFlag ex FlagContinue 1
        else do
          fields <- reverse <$> foldHeaders (workHead ws) (\acc n v -> (\a b -> (a, b) : acc) <$> copySlice p n <*> copySlice p v) []
          exchangeRestore ex (requestInterim (exchangeRequest ex) code fields)

-- | Look, without waiting, whether the peer has answered or closed.
answered :: Exchange -> IO Bool
answered ex = do
  known <- readRef (exchangeAnswer ex)
  case known of
    Just _ -> pure True
    Nothing -> do
      makeHeadRoom ex
      r <- takeIn ex (readNow (exchangeTransport ex))
      case () of
        _
          | r > 0 -> maybe False (const True) <$> progress ex
          | r < 0 && Errno (negate r) == EINTR -> answered ex
          | r < 0 && Errno (negate r) == EAGAIN -> pure False
          | otherwise -> pure True
