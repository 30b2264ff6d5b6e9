{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.H2.Session
-- Description : libnghttp2's sessions
-- Stability   : internal, exempt from the version policy
--
-- Calls of @cbits/heddle_h2.c@, which says what each does. One call takes a whole batch of input, and
-- one packs a whole buffer of output.
--
-- Invariant: after 'endSession' every call answers 'Gone'.
-- Owner: the connection ends the session; any thread may call, on any capability.
-- Cost: about 10 ns a call, and what libnghttp2 does.
module Heddle.Http.H2.Session
  ( Session,
    newSession,
    endSession,
    liveSessions,
    liveStreams,
    calmedSessions,
    restingSessions,

    -- * Input and output
    feed,
    moreEvents,
    drain,
    Event (..),
    readEvents,
    eventsRoom,

    -- * State
    State,
    sessionState,
    stateReads,
    stateWrites,
    statePingAnswered,
    stateStreams,
    checkSession,
    restSession,
    noticeShutdown,
    goAway,

    -- * Streams
    StreamName (..),
    copyHead,
    readInput,
    Ending (..),
    beginReply,
    writeOutput,
    outputRoom,
    setTrailers,
    sendInterim,
    resetStream,
    ResetCause (..),
    endStream,
    lowHalf,
    highHalf,
    pattern Gone,
    pattern Malformed,
    pattern TooLarge,
    pattern NothingYet,
  )
where

import Control.Monad (forM, zipWithM_)
import Data.Bits (shiftR, (.&.))
import Data.Int (Int32, Int64)
import Data.Word (Word32, Word8)
import Foreign.C.Types (CInt (..))
import Foreign.ForeignPtr (FinalizerPtr, ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, nullPtr)
import Foreign.Storable (peekByteOff, pokeElemOff)
import Heddle.Http.H2.Limits
import Heddle.Prim.Clock (Deadline (..), Nanos, nanosCount)

-- | A session's shell, in C's memory.
newtype Session = Session (ForeignPtr Word8)

-- | The answer when the stream, or the session, is over.
pattern Gone :: Int
pattern Gone = -1

-- | The answer for a head that cannot be a request's, or a reply's.
pattern Malformed :: Int
pattern Malformed = -2

-- | The answer for a request whose fields exceed the limits.
pattern TooLarge :: Int
pattern TooLarge = -3

-- | The answer when there is nothing to read yet.
pattern NothingYet :: Int
pattern NothingYet = -11

-- | A session that has its SETTINGS to send; 'Nothing' without memory. The number is the size of
-- a request's trailers, which are dropped, that is accepted.
--
-- [Cost]: about 5 µs and 30 KB of C's memory; while it idles, 1.2 KB and what its header tables hold.
-- [Blocks]: never.
newSession :: Http2Limits -> Int -> Deadline -> IO (Maybe Session)
newSession limits trailers (Deadline now) = do
  shell <- allocaBytes (8 * length numbers) $ \q -> do
    zipWithM_ (\i n -> pokeElemOff q i (bounded (n limits))) [0 ..] numbers
    c_new q (fromIntegral now)
  if shell == nullPtr then pure Nothing else Just . Session <$> newForeignPtr c_free shell
  where
    -- Settings and windows of HTTP/2 have 31 bits.
    bounded n = fromIntegral (max 0 (min 0x7FFFFFFF n)) :: Int64
    numbers =
      [ http2Streams,
        http2StreamWindow,
        http2ConnectionWindow,
        http2HeaderList,
        http2Fields,
        const trailers,
        http2ResetBurst,
        http2ResetRate,
        http2ControlBurst,
        http2ControlRate,
        http2Useless,
        http2Output
      ]

-- | Free the session. Idempotent. The collector does it for a session that nobody has ended.
--
-- [Blocks]: never.
endSession :: Session -> IO ()
endSession (Session shell) = withForeignPtr shell c_end

-- | How many sessions exist in this process.
liveSessions :: IO Int
liveSessions = fromIntegral <$> c_live 0

-- | How many streams exist in them.
liveStreams :: IO Int
liveStreams = fromIntegral <$> c_live 1

-- | How many sessions were ended because their client exceeded a limit.
calmedSessions :: IO Int
calmedSessions = fromIntegral <$> c_live 2

-- | How many sessions hold only what their next request needs, see 'restSession'.
restingSessions :: IO Int
restingSessions = fromIntegral <$> c_live 3

-- Input and output ------------------------------------------------------------------

-- | Take received bytes. Events are written over them ('readEvents'), so the memory has at least
-- 'eventsRoom' bytes: how many, or 'Gone'.
--
-- [Cost]: libnghttp2's: 0.5 µs a request.
-- [Blocks]: never.
feed :: Session -> Ptr Word8 -> Int -> Deadline -> IO Int
feed (Session shell) p n (Deadline now) = withForeignPtr shell $ \s -> fromIntegral <$> c_feed s p (fromIntegral n) (fromIntegral now)

-- | Events beyond those that 'feed' had room for.
moreEvents :: Session -> Ptr Word8 -> IO Int
moreEvents (Session shell) p = withForeignPtr shell $ \s -> fromIntegral <$> c_events s p

-- | @drain session to room events now@ packs output: 'lowHalf' of the answer is the number of bytes,
-- 'highHalf' that of the events, at most 64; or 'Gone'.
--
-- [Cost]: libnghttp2's: 0.5 µs a reply.
-- [Blocks]: never.
drain :: Session -> Ptr Word8 -> Int -> Ptr Word8 -> Deadline -> IO Int
drain (Session shell) p n events (Deadline now) =
  withForeignPtr shell $ \s -> fromIntegral <$> c_drain s p (fromIntegral n) events (fromIntegral now)

-- | The lower 32 bits of an answer.
lowHalf :: Int -> Int
lowHalf n = n .&. 0xFFFFFFFF

-- | The bits above them.
highHalf :: Int -> Int
highHalf n = n `shiftR` 32

-- | What a session tells.
data Event
  = -- | A request's head is complete.
    Requested !StreamName
  | -- | There is something to read, or room to write.
    Woken !StreamName
  | -- | The stream is closed; the code is 0 if its reply was complete.
    StreamClosed !StreamName !Int

-- | Which stream: its slot in the session and its identifier, which is never used again.
data StreamName = StreamName
  { streamSlot :: !Word32,
    streamNumber :: !Int32
  }
  deriving stock (Eq, Show)

-- | Events in memory.
readEvents :: Ptr Word8 -> Int -> IO [Event]
readEvents p count = forM [0 .. count - 1] $ \i -> do
  kind <- peekByteOff p (16 * i) :: IO Word32
  name <- StreamName <$> peekByteOff p (16 * i + 4) <*> peekByteOff p (16 * i + 8)
  detail <- peekByteOff p (16 * i + 12) :: IO Word32
  pure $ case kind of
    1 -> Requested name
    2 -> Woken name
    _ -> StreamClosed name (fromIntegral detail)

-- | Room for as many events as one call writes.
--
-- [Units]: bytes.
eventsRoom :: Int
eventsRoom = 512 * 16

-- State -----------------------------------------------------------------------------

-- | What a session wants, in one number.
newtype State = State Int

-- | The session's state; of one that has ended, nothing is wanted.
sessionState :: Session -> IO State
sessionState (Session shell) = State . max 0 . fromIntegral <$> withForeignPtr shell c_state

-- | Whether it reads on.
stateReads :: State -> Bool
stateReads (State n) = n .&. 1 /= 0

-- | Whether it has something to send.
stateWrites :: State -> Bool
stateWrites (State n) = n .&. 2 /= 0

-- | Whether the PING of 'noticeShutdown' was answered.
statePingAnswered :: State -> Bool
statePingAnswered (State n) = n .&. 4 /= 0

-- | How many streams it has, those included whose handler still runs.
stateStreams :: State -> Int
stateStreams (State n) = n `shiftR` 8

-- | @checkSession session now headPatience replyPatience@ ends what takes too long. When an
-- incomplete head began, or 0.
--
-- [Cost]: O(streams).
checkSession :: Session -> Deadline -> Nanos -> Nanos -> IO Int
checkSession (Session shell) (Deadline now) headPatience replyPatience =
  withForeignPtr shell $ \s -> fromIntegral <$> c_check s (fromIntegral now) (fromIntegral (nanosCount headPatience)) (fromIntegral (nanosCount replyPatience))

-- | Keep little until the next call: for a connection that waits for input. Nothing happens while the session has a stream or
-- output, and within half a second after the one before: requests that follow each other closely find the memory of those before
-- them.
--
-- [Cost]: about 5 µs, part of which the next call pays.
-- [Blocks]: never.
restSession :: Session -> Deadline -> IO ()
restSession (Session shell) (Deadline now) = withForeignPtr shell $ \s -> c_rest s (fromIntegral now)

-- | Announce that the connection will end, and ask the client for an answer.
noticeShutdown :: Session -> IO ()
noticeShutdown (Session shell) = withForeignPtr shell c_notice

-- | Take no further streams.
goAway :: Session -> IO ()
goAway (Session shell) = withForeignPtr shell c_goaway

-- Streams ---------------------------------------------------------------------------

-- | Copy a request's head, in HTTP/1.1's form, to memory of this size: its length, of which only what
-- fits was copied, or a negative code. 'highHalf' is 1 when no body follows.
copyHead :: Session -> StreamName -> Ptr Word8 -> Int -> IO Int
copyHead (Session shell) (StreamName slot n) p room = withForeignPtr shell $ \s -> fromIntegral <$> c_head s slot n p (fromIntegral room)

-- | Read of a request's body: a count ('lowHalf'; 'highHalf' is 1 if there is something to send), 0 at the
-- end, 'NothingYet' ('Woken' will tell), or 'Gone'.
--
-- [Cost]: a copy.
-- [Blocks]: never.
readInput :: Session -> StreamName -> Ptr Word8 -> Int -> IO Int
readInput (Session shell) (StreamName slot n) p room = withForeignPtr shell $ \s -> fromIntegral <$> c_read s slot n p (fromIntegral room)

-- | Whether content goes on.
data Ending
  = Continues
  | Ends
  | -- | It ends, and all of it is accepted, whatever the client's windows.
    EndsAtOnce
  deriving stock (Enum)

-- | Begin a reply: its head in HTTP/1.1's form, content, whether that is all of it. How many bytes of
-- the content were accepted, 'Malformed', or 'Gone'.
--
-- [Cost]: a copy.
-- [Blocks]: never.
beginReply :: Session -> StreamName -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> Ending -> IO Int
beginReply (Session shell) (StreamName slot n) head' headBytes content count ending =
  withForeignPtr shell $ \s -> fromIntegral <$> c_reply s slot n head' (fromIntegral headBytes) content (fromIntegral count) (fromIntegral (fromEnum ending))

-- | More of the content: how many bytes were accepted (if not all, 'Woken' will tell), or 'Gone'.
--
-- [Cost]: a copy.
-- [Blocks]: never.
writeOutput :: Session -> StreamName -> Ptr Word8 -> Int -> Bool -> IO Int
writeOutput (Session shell) (StreamName slot n) p count complete =
  withForeignPtr shell $ \s -> fromIntegral <$> c_write s slot n p (fromIntegral count) (flag complete)

flag :: Bool -> CInt
flag b = if b then 1 else 0

-- | How many bytes of content would be accepted now: 0 while the client takes none ('Woken' will tell), or 'Gone'.
--
-- [Blocks]: never.
outputRoom :: Session -> StreamName -> IO Int
outputRoom (Session shell) (StreamName slot n) = withForeignPtr shell $ \s -> fromIntegral <$> c_room s slot n

-- | The fields that follow the content, as lines with an empty one behind: 0, 'Malformed', or 'Gone' when the reply has
-- not begun or its content is complete.
--
-- [Cost]: a copy.
-- [Blocks]: never.
setTrailers :: Session -> StreamName -> Ptr Word8 -> Int -> IO Int
setTrailers (Session shell) (StreamName slot n) p count = withForeignPtr shell $ \s -> fromIntegral <$> c_trailers s slot n p (fromIntegral count)

-- | Send an interim response, a head in HTTP/1.1's form: 0, 'Malformed', or 'Gone', also when the reply has begun.
--
-- [Cost]: a copy.
-- [Blocks]: never.
sendInterim :: Session -> StreamName -> Ptr Word8 -> Int -> IO Int
sendInterim (Session shell) (StreamName slot n) p count = withForeignPtr shell $ \s -> fromIntegral <$> c_interim s slot n p (fromIntegral count)

-- | Whose fault a reset is.
data ResetCause
  = -- | The client's: it counts against 'http2ResetBurst'.
    Provoked
  | -- | The server's.
    OwnFault

-- | Give a stream up, with an error code of RFC 9113, section 7.
resetStream :: Session -> StreamName -> Int -> ResetCause -> IO ()
resetStream (Session shell) (StreamName slot n) code cause = withForeignPtr shell $ \s ->
  c_reset s slot n (fromIntegral code) (case cause of Provoked -> 0; OwnFault -> 1)

-- | The handler has ended. A reply that is not complete becomes INTERNAL_ERROR.
endStream :: Session -> StreamName -> IO ()
endStream (Session shell) (StreamName slot n) = withForeignPtr shell $ \s -> c_done s slot n

-- Unsafe, all of them: they use memory only, and the lock that they spin on is held by calls that do the
-- same. Feeding is bounded by the bytes given, draining by the buffer.
foreign import ccall unsafe "heddle_h2_new" c_new :: Ptr Int64 -> Int64 -> IO (Ptr Word8)

foreign import ccall "&heddle_h2_free" c_free :: FinalizerPtr Word8

foreign import ccall unsafe "heddle_h2_end" c_end :: Ptr Word8 -> IO ()

foreign import ccall unsafe "heddle_h2_live" c_live :: CInt -> IO Int64

foreign import ccall unsafe "heddle_h2_feed" c_feed :: Ptr Word8 -> Ptr Word8 -> Int64 -> Int64 -> IO Int64

foreign import ccall unsafe "heddle_h2_events" c_events :: Ptr Word8 -> Ptr Word8 -> IO Int64

foreign import ccall unsafe "heddle_h2_drain" c_drain :: Ptr Word8 -> Ptr Word8 -> Int64 -> Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "heddle_h2_state" c_state :: Ptr Word8 -> IO Int64

foreign import ccall unsafe "heddle_h2_check" c_check :: Ptr Word8 -> Int64 -> Int64 -> Int64 -> IO Int64

foreign import ccall unsafe "heddle_h2_rest" c_rest :: Ptr Word8 -> Int64 -> IO ()

foreign import ccall unsafe "heddle_h2_notice" c_notice :: Ptr Word8 -> IO ()

foreign import ccall unsafe "heddle_h2_goaway" c_goaway :: Ptr Word8 -> IO ()

foreign import ccall unsafe "heddle_h2_head" c_head :: Ptr Word8 -> Word32 -> Int32 -> Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "heddle_h2_read" c_read :: Ptr Word8 -> Word32 -> Int32 -> Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "heddle_h2_reply" c_reply :: Ptr Word8 -> Word32 -> Int32 -> Ptr Word8 -> Int64 -> Ptr Word8 -> Int64 -> CInt -> IO Int64

foreign import ccall unsafe "heddle_h2_write" c_write :: Ptr Word8 -> Word32 -> Int32 -> Ptr Word8 -> Int64 -> CInt -> IO Int64

foreign import ccall unsafe "heddle_h2_room" c_room :: Ptr Word8 -> Word32 -> Int32 -> IO Int64

foreign import ccall unsafe "heddle_h2_trailers" c_trailers :: Ptr Word8 -> Word32 -> Int32 -> Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "heddle_h2_interim" c_interim :: Ptr Word8 -> Word32 -> Int32 -> Ptr Word8 -> Int64 -> IO Int64

foreign import ccall unsafe "heddle_h2_reset" c_reset :: Ptr Word8 -> Word32 -> Int32 -> Word32 -> CInt -> IO ()

foreign import ccall unsafe "heddle_h2_done" c_done :: Ptr Word8 -> Word32 -> Int32 -> IO ()
