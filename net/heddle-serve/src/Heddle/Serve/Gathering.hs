-- |
-- Module      : Heddle.Serve.Gathering
-- Description : The figures of all processes, for a status that one of them is asked for
-- Stability   : internal, exempt from the version policy
--
-- A worker of "Heddle.Serve.Supervisor" that is asked for the status asks the supervisor, which asks all workers at once and adds
-- their figures up. Each worker has two socket pairs with it: one on which the supervisor asks, one on which the worker does. A
-- question is a number, and an answer begins with it, so that an answer that comes too late is not taken for the next one.
--
-- The supervisor remembers what each worker has counted when it was last asked. Counts of one that has ended, or does not answer
-- in time, stay in the sum: a counter that fell would look like a restart of the whole server to Prometheus.
--
-- Cost: for each question 3 KB for each worker and route, and some milliseconds; nothing for a request.
-- Owner: the supervisor closes a worker's channels when another one takes its place; a worker keeps its own open.
module Heddle.Serve.Gathering
  ( -- * In the supervisor
    Gathering,
    newGathering,
    startMember,

    -- * In a worker
    Membership,
    takeMembership,
    askAll,
    answerQuestions,

    -- * Parts, for tests
    Channel,
    channelOf,
    channelPair,
    closeChannel,
    question,
    answering,
    joinMember,
    gather,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (void, when)
import Data.Binary.Get (getInt64le, runGetOrFail)
import Data.Binary.Put (putInt64le, runPut)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Lazy qualified as L
import Data.Foldable (for_)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Maybe (catMaybes)
import Foreign.C.Types (CInt (..))
import Foreign.Marshal.Array (allocaArray, peekArray)
import Foreign.Ptr (Ptr)
import Heddle.IO (Conn, Deadline, RecvResult (..), Runtime, SendResult (..), close, deadlineIn, never, recvUntil, register, seconds, sendAllUntil)
import Heddle.Prim.Atomic
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Lock
import Heddle.Prim.Thread (fork)
import Heddle.Serve.StatusFigures
import Heddle.Serve.StatusWire
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.IO (FdOption (CloseOnExec), closeFd, setFdOption)
import System.Posix.Process (getProcessID)
import System.Posix.Types (Fd)
import Text.Read (readMaybe)

-- Channels -----------------------------------------------------------------------

-- | A socket with what it has received beyond the last frame, and the number of the next question.
data Channel = Channel
  { channelConn :: !Conn,
    channelRest :: !(Ref ByteString),
    channelNext :: !(Ref Int)
  }

-- | A channel of a connected socket.
channelOf :: Conn -> IO Channel
channelOf conn = Channel conn <$> newRef B.empty <*> newRef 1

-- | A channel, and its other end for another process.
--
-- [Throws]: 'IOError' when there are no descriptors.
channelPair :: Runtime -> IO (Channel, Fd)
channelPair runtime = allocaArray 2 $ \ends -> do
  _ <- checked "socketpair" (fromIntegral <$> c_pair ends)
  peekArray 2 ends >>= \case
    [mine, theirs] -> do
      conn <- register runtime (fromIntegral mine) `onException` (closeFd (fromIntegral mine) >> closeFd (fromIntegral theirs))
      channel <- channelOf conn
      pure (channel, fromIntegral theirs)
    _ -> throwErrnoFor "socketpair" EINVAL

-- | Whoever uses it, on either end, is told that there will be nothing more.
closeChannel :: Channel -> IO ()
closeChannel = close . channelConn

-- A number, the length of what follows, and that.
frame :: Int -> L.ByteString -> ByteString
frame number body = L.toStrict (runPut (putInt64le (fromIntegral number) >> putInt64le (L.length body)) <> body)

data Frame = Short | Damaged | Whole !Int !L.ByteString !ByteString

-- The first frame of what was received, and the rest.
parseFrame :: ByteString -> Frame
parseFrame bytes = case runGetOrFail ((,) <$> getInt64le <*> getInt64le) (L.fromStrict (B.take 16 bytes)) of
  Right (_, _, (number, len))
    | len < 0 || len > longestFrame -> Damaged
    | fromIntegral (B.length bytes) < 16 + len -> Short
    | otherwise -> let (body, rest) = B.splitAt (fromIntegral len) (B.drop 16 bytes) in Whole (fromIntegral number) (L.fromStrict body) rest
  Left _ -> Short
  where
    longestFrame = 67108864

-- The next frame; 'Nothing' if none comes in time or ever.
nextFrame :: Channel -> Deadline -> IO (Maybe (Int, L.ByteString))
nextFrame channel deadline = do
  received <- readRef (channelRest channel)
  case parseFrame received of
    Whole number body rest -> Just (number, body) <$ writeRef (channelRest channel) rest
    Damaged -> Nothing <$ closeChannel channel
    Short ->
      trySync (recvUntil (channelConn channel) 65536 deadline) >>= \case
        Right (Got bytes) -> writeRef (channelRest channel) (received <> bytes) >> nextFrame channel deadline
        Right TimedOut -> pure Nothing
        _ -> Nothing <$ closeChannel channel

-- Whether a whole frame was sent. A part of one makes the channel useless, whatever the reason: the other has mostly ended.
sent :: Channel -> ByteString -> Deadline -> IO Bool
sent channel bytes deadline =
  trySync (sendAllUntil (channelConn channel) bytes deadline) >>= \case
    Right Sent -> pure True
    _ -> False <$ closeChannel channel

-- Ask, and be told the number of the question.
post :: Channel -> Deadline -> IO (Maybe Int)
post channel deadline = do
  number <- readRef (channelNext channel)
  writeRef (channelNext channel) (number + 1)
  went <- sent channel (frame number L.empty) deadline
  pure (if went then Just number else Nothing)

-- The answer to the question with this number.
hear :: Channel -> Deadline -> Int -> IO (Maybe L.ByteString)
hear channel deadline number =
  nextFrame channel deadline >>= \case
    Just (other, _) | other < number -> hear channel deadline number
    given -> pure (snd <$> given)

-- | Ask and wait for the answer; one thread at a time.
--
-- [Blocks]: parks, until the deadline.
question :: Channel -> Deadline -> IO (Maybe L.ByteString)
question channel deadline = post channel deadline >>= maybe (pure Nothing) (hear channel deadline)

-- | Answer questions until the other end is closed.
--
-- [Blocks]: parks.
answering :: Channel -> IO L.ByteString -> IO ()
answering channel answer =
  nextFrame channel never >>= \case
    Nothing -> pure ()
    Just (number, _) -> do
      bytes <- frame number <$> answer
      deadline <- deadlineIn (seconds 5)
      went <- sent channel bytes deadline
      when went (answering channel answer)

-- The supervisor --------------------------------------------------------------------

-- | What the supervisor knows of its workers' figures.
data Gathering = Gathering
  { gatheringRuntime :: !Runtime,
    -- | Held while all are asked: a second at most.
    gatheringLock :: !Lock,
    -- | By slot.
    gatheringMembers :: !(Ref (IntMap Member)),
    -- | What workers that have ended had counted, and how many they are.
    gatheringEnded :: !(Ref (Maybe StatusFigures, Int)),
    gatheringTell :: !(String -> IO ())
  }

-- | The channel on which a worker is asked, and what it answered last.
data Member = Member !Channel !(Maybe StatusFigures)

-- | Without workers yet.
newGathering :: Runtime -> (String -> IO ()) -> IO Gathering
newGathering runtime tell = Gathering runtime <$> newLock <*> newRef IntMap.empty <*> newRef (Nothing, 0) <*> pure tell

-- | Start the worker of a slot by an action that gets a variable and descriptors for it. If it serves, it is asked from now on
-- instead of the one that had the slot before.
--
-- [Throws]: 'IOError' when there are no descriptors, and what the action throws.
startMember :: Gathering -> Int -> ([(String, String)] -> [Fd] -> IO (Either e a)) -> IO (Either e a)
startMember gathering slot start = do
  (asking, theirs) <- channelPair runtime
  (asked, theirs') <- channelPair runtime `onException` (closeChannel asking >> closeFd theirs)
  let ours = closeChannel asking >> closeChannel asked
  started <- (start [(membershipVariable, show (number theirs, number theirs'))] [theirs, theirs'] `finally` (closeFd theirs >> closeFd theirs')) `onException` ours
  either (const ours) (const (joinMember gathering slot asking asked)) started
  pure started
  where
    runtime = gatheringRuntime gathering
    number fd = fromIntegral fd :: Int

-- | Ask a worker on one channel from now on, and answer it on another.
joinMember :: Gathering -> Int -> Channel -> Channel -> IO ()
joinMember gathering slot asking asked = do
  withLock (gatheringLock gathering) $ do
    members <- readRef (gatheringMembers gathering)
    writeRef (gatheringMembers gathering) (IntMap.insert slot (Member asking Nothing) members)
    for_ (IntMap.lookup slot members) $ \(Member before known) -> do
      closeChannel before
      (sum', ended) <- readRef (gatheringEnded gathering)
      writeRef (gatheringEnded gathering) (figuresTogether (catMaybes [sum', countsOnly <$> known]), ended + 1)
  void . fork "serve/figures" $ do
    r <- trySync (answering asked (maybe L.empty figuresBytes <$> gather gathering))
    closeChannel asked
    for_ (either Just (const Nothing) r) $ \e -> gatheringTell gathering ("the processes' figures cannot be added up: " ++ describeException e)

-- | The figures of all workers, unless none answers within a second.
--
-- [Blocks]: parks.
gather :: Gathering -> IO (Maybe StatusFigures)
gather gathering = withLock (gatheringLock gathering) $ do
  members <- readRef (gatheringMembers gathering)
  deadline <- deadlineIn (seconds 1)
  posted <- traverse (\(Member channel known) -> (,,) channel known <$> post channel deadline) members
  heard <- traverse (\(channel, known, number) -> (,,) channel known . (>>= figuresFrom) <$> maybe (pure Nothing) (hear channel deadline) number) posted
  writeRef (gatheringMembers gathering) (fmap (\(channel, known, now) -> Member channel (now <|> known)) heard)
  (before, ended) <- readRef (gatheringEnded gathering)
  me <- fromIntegral <$> getProcessID
  let present = [now | (_, _, Just now) <- IntMap.elems heard]
      missing = [countsOnly known | (_, Just known, Nothing) <- IntMap.elems heard]
  pure $
    if null present
      then Nothing
      else (\whole -> whole {statusProcess = me, statusProcesses = Just (length present, ended)}) <$> figuresTogether (present ++ missing ++ catMaybes [before])

-- Workers ---------------------------------------------------------------------------

-- | A worker's channels: the one on which it is asked, and the one on which it asks, one thread at a time.
data Membership = Membership !Channel !Channel !Lock

-- The descriptors of a worker's channels.
membershipVariable :: String
membershipVariable = "HEDDLE_FIGURES"

-- | The channels that this process was started with, if any; once.
--
-- [Blocks]: never.
takeMembership :: Runtime -> IO (Maybe Membership)
takeMembership runtime = do
  given <- (>>= readMaybe) <$> lookupEnv membershipVariable
  unsetEnv membershipVariable
  case given of
    Just (asked, asking)
      | asked >= (0 :: Int),
        asking >= (0 :: Int) -> do
        for_ [asked, asking] $ \fd -> setFdOption (fromIntegral fd) CloseOnExec True
        let channel fd = register runtime (fromIntegral fd) >>= channelOf
        Just <$> (Membership <$> channel asked <*> channel asking <*> newLock)
    _ -> pure Nothing

-- | The figures of all workers; 'Nothing' if the supervisor does not answer within three seconds.
--
-- [Blocks]: parks.
askAll :: Membership -> IO (Maybe StatusFigures)
askAll (Membership _ channel lock) = withLock lock $ do
  deadline <- deadlineIn (seconds 3)
  (>>= figuresFrom) <$> question channel deadline

-- | Answer the supervisor's questions with the figures of this process, until it has closed the channel.
--
-- [Blocks]: parks.
answerQuestions :: Membership -> IO StatusFigures -> IO ()
answerQuestions (Membership channel _ _) figures = answering channel (figuresBytes <$> figures)

-- unsafe: makes two sockets, which never sleeps.
foreign import ccall unsafe "heddle_successor_pair" c_pair :: Ptr CInt -> IO CInt
