{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Http.Workspace
-- Description : What a connection needs while it has work
-- Stability   : internal, exempt from the version policy
--
-- Input and output buffer, head table, chunk decoder and a few counters, borrowed from a pool
-- of the capability. A connection that idles, or waits for the rest of a head or of a body that
-- is to be discarded, has none.
--
-- Invariant: unread input lies from 'WorkStart' to 'WorkEnd'; the head being served begins
-- at 'WorkBase', before it.
-- Owner: the connection's thread, from borrowing to giving back.
-- Cost: about 39 KB with the default limits.
module Heddle.Http.Workspace
  ( Workspace (..),
    Source (..),
    newWorkspace,
    inputSize,
    addedRoom,
    outputSize,
    inputPtr,
    outputPtr,
    get,
    set,

    -- * Put away
    Partial,
    putAway,
    takeUp,
    Suspended,
    suspendedBegan,
    suspend,
    suspendAgain,
    resume,

    -- * Counters
    pattern WorkStart,
    pattern WorkEnd,
    pattern WorkBase,
    pattern WorkUsed,
    pattern WorkShort,
    pattern WorkLeft,
    pattern WorkContinue,
    pattern WorkBodyBegan,
    pattern WorkBodyGot,
    pattern WorkBurst,
    pattern WorkSent,
    pattern WorkReplied,
    pattern WorkPushed,
    pattern WorkCloses,
    pattern WorkFirst,
    pattern WorkStream,
    pattern WorkBodyTotal,
    pattern WorkBodyMost,
    pattern WorkBodyLast,
    pattern WorkNotes,
    pattern WorkUpstream,

    -- * What was noted of a request
    addedBytes,
    isNoted,
    pattern NoteReply,
    pattern NoteUpstream,
    pattern NoteLog,
  )
where

import Control.Monad (when)
import Data.Bits (unsafeShiftR, (.&.))
import Data.ByteString (ByteString)
import Data.Foldable (for_)
import Data.Primitive.PrimArray (PrimArray, copyPrimArrayToPtr, newPrimArray, sizeofPrimArray, unsafeFreezePrimArray)
import Data.Primitive.Ptr (copyPtrToMutablePrimArray)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, plusPtr)
import Heddle.Http.Chunked (ChunkState, copyChunkState, newChunkState)
import Heddle.Http.Head (HeadTable, SavedHead, headLength, newHeadTable, restoreHead, saveHead, shiftHeaders)
import Heddle.Http.Parse (Limits (..))
import Heddle.Prim.Atomic (Ref, Words, newRef, newWords, readRef, readWord, writeRef, writeWord)
import Heddle.Prim.Buffer (Buffer, bufferPtr, bufferSize, newBuffer)
import Heddle.Prim.Clock (Deadline)

-- | A connection's working memory.
data Workspace = Workspace
  { workInput :: !Buffer,
    workOutput :: !Buffer,
    -- | Memory in which to format something about the request, such as its log line.
    workScratch :: !Buffer,
    workHead :: !HeadTable,
    workChunks :: !ChunkState,
    workWords :: !Words,
    -- | Where an HTTP/2 request's body comes from; see 'WorkLeft'.
    workSource :: !(Ref Source),
    -- | Header lines for whatever reply the request gets; see 'NoteReply'.
    workHeaders :: !(Ref [(ByteString, ByteString)]),
    -- | What logs are to know of the request, by name, the newest first; see 'NoteLog'.
    workLogged :: !(Ref [(ByteString, ByteString)])
  }

-- | What stands for the connection in the workspace of an HTTP/2 stream.
data Source
  = NoSource
  | -- | Reads at least one byte of the body into memory of this size, at least one, and returns how
    -- many, or 0 at its end; waits, at most until a deadline; gives the stream up.
    Source !(Ptr Word8 -> Int -> IO Int) !(Deadline -> IO ()) !(IO ())

-- | A workspace for these limits.
newWorkspace :: Limits -> IO Workspace
newWorkspace limits =
  Workspace
    -- A body always has 8 KB after the longest head.
    <$> newBuffer (limitHeadBytes limits + 8192 + addedRoom)
    <*> newBuffer 8192
    <*> newBuffer 4096
    -- Some more may be added after the parser has counted them.
    <*> newHeadTable (limitHeaders limits + 8)
    <*> newChunkState
    <*> newWords workWordCount
    <*> newRef NoSource
    <*> newRef []
    <*> newRef []

-- | Room for input.
--
-- [Units]: bytes.
inputSize :: Workspace -> Int
inputSize ws = bufferSize (workInput ws) - addedRoom
{-# INLINE inputSize #-}

-- | Room behind the input for headers that are added to a request; 'addedBytes' says how much is in use.
--
-- [Units]: bytes.
addedRoom :: Int
addedRoom = 1024

-- | Room for output.
--
-- [Units]: bytes.
outputSize :: Workspace -> Int
outputSize = bufferSize . workOutput
{-# INLINE outputSize #-}

-- | The input's memory; the workspace keeps it.
inputPtr :: Workspace -> Ptr Word8
inputPtr = bufferPtr . workInput
{-# INLINE inputPtr #-}

-- | The output's memory; the workspace keeps it.
outputPtr :: Workspace -> Ptr Word8
outputPtr = bufferPtr . workOutput
{-# INLINE outputPtr #-}

-- | Read a counter.
get :: Workspace -> Int -> IO Int
get ws = readWord (workWords ws)
{-# INLINE get #-}

-- | Write a counter.
set :: Workspace -> Int -> Int -> IO ()
set ws = writeWord (workWords ws)
{-# INLINE set #-}

-- | The part of a head that has arrived. It is kept apart so that the connection needs no
-- workspace while it waits for the rest.
data Partial = Partial !(PrimArray Word8) !SavedHead !Int

-- | Copy the unfinished head out of a workspace.
--
-- [Cost]: its bytes, and about 400.
putAway :: Workspace -> IO Partial
putAway ws = do
  base <- get ws WorkBase
  end <- get ws WorkEnd
  bytes <- newPrimArray (end - base)
  copyPtrToMutablePrimArray bytes 0 (inputPtr ws `plusPtr` base) (end - base)
  Partial <$> unsafeFreezePrimArray bytes <*> saveHead (workHead ws) <*> get ws WorkFirst

-- | Restore an unfinished head into a workspace; its previous content is overwritten.
--
-- [Cost]: that of 'putAway'.
takeUp :: Workspace -> Partial -> IO ()
takeUp ws (Partial bytes head' first) = do
  let size = sizeofPrimArray bytes
  copyPrimArrayToPtr (inputPtr ws) bytes 0 size
  restoreHead (workHead ws) head'
  set ws WorkBase 0
  set ws WorkStart 0
  set ws WorkEnd size
  set ws WorkUsed 0
  set ws WorkBurst 0
  set ws WorkShort 0
  set ws WorkFirst first
  set ws WorkNotes 0
  set ws WorkBodyTotal 0

-- | A request whose handler has replied, with nothing in the input or the output: it needs no workspace while
-- it waits.
data Suspended = Suspended
  { -- | Its head, and the headers that were added to it.
    suspendedBytes :: !(PrimArray Word8),
    suspendedHead :: !SavedHead,
    suspendedWords :: !Words,
    suspendedChunks :: !ChunkState,
    suspendedHeaders :: ![(ByteString, ByteString)],
    suspendedLogged :: ![(ByteString, ByteString)],
    -- | When its head was complete.
    suspendedBegan :: !Deadline
  }

-- | Copy a request that began at this time out of a workspace.
--
-- [Cost]: its head's bytes, and about 800.
suspend :: Workspace -> Deadline -> IO Suspended
suspend ws began = do
  size <- headLength (workHead ws)
  base <- get ws WorkBase
  added <- addedBytes ws
  -- As if the head stood at the beginning of the input, where it will.
  when (added > 0) (shiftHeaders (workHead ws) (inputSize ws - base) base)
  bytes <- newPrimArray (size + added)
  copyPtrToMutablePrimArray bytes 0 (inputPtr ws `plusPtr` base) size
  copyPtrToMutablePrimArray bytes size (inputPtr ws `plusPtr` inputSize ws) added
  set ws WorkBase 0
  set ws WorkStart size
  set ws WorkEnd size
  saved <- Suspended <$> unsafeFreezePrimArray bytes <*> saveHead (workHead ws) <*> newWords workWordCount <*> newChunkState <*> noted NoteReply workHeaders <*> noted NoteLog workLogged <*> pure began
  suspendAgain ws saved
  pure saved
  where
    -- Not those of an earlier request.
    noted note part = isNoted ws note >>= \with -> if with then readRef (part ws) else pure []

-- | The same for a request that was resumed: only its counters have changed.
--
-- [Cost]: a copy of 300 bytes; nothing allocated.
suspendAgain :: Workspace -> Suspended -> IO ()
suspendAgain ws saved = do
  copyWords (workWords ws) (suspendedWords saved)
  copyChunkState (workChunks ws) (suspendedChunks saved)

-- | Restore a request into a workspace; its previous content is overwritten.
--
-- [Cost]: that of 'suspend'; nothing allocated.
resume :: Workspace -> Suspended -> IO ()
resume ws saved = do
  copyWords (suspendedWords saved) (workWords ws)
  size <- get ws WorkEnd
  added <- addedBytes ws
  copyPrimArrayToPtr (inputPtr ws) (suspendedBytes saved) 0 size
  copyPrimArrayToPtr (inputPtr ws `plusPtr` inputSize ws) (suspendedBytes saved) size added
  restoreHead (workHead ws) (suspendedHead saved)
  copyChunkState (suspendedChunks saved) (workChunks ws)
  writeRef (workHeaders ws) (suspendedHeaders saved)
  writeRef (workLogged ws) (suspendedLogged saved)
  -- More may have come since.
  set ws WorkShort 0

copyWords :: Words -> Words -> IO ()
copyWords from to = for_ [0 .. workWordCount - 1] $ \i -> readWord from i >>= writeWord to i

workWordCount :: Int
workWordCount = 21

-- | Where unread input begins.
pattern WorkStart :: Int
pattern WorkStart = 0

-- | Where it ends.
pattern WorkEnd :: Int
pattern WorkEnd = 1

-- | Where the current head begins.
pattern WorkBase :: Int
pattern WorkBase = 2

-- | Bytes waiting in the output.
pattern WorkUsed :: Int
pattern WorkUsed = 3

-- | 1 when the last receive was short, so that the next would find nothing.
pattern WorkShort :: Int
pattern WorkShort = 4

-- | Bytes of a sized body still to come; -1 for a chunked one not yet at its end. For
-- one that comes from 'workSource': -2 if its length is unknown, otherwise -3 less the bytes still to come.
pattern WorkLeft :: Int
pattern WorkLeft = 5

-- | 1 while the client waits for 100 Continue; 2 after the body's failure was thrown to the
-- handler.
pattern WorkContinue :: Int
pattern WorkContinue = 6

-- | When reading the body began (monotonic nanoseconds).
pattern WorkBodyBegan :: Int
pattern WorkBodyBegan = 7

-- | Bytes received for the body since then.
pattern WorkBodyGot :: Int
pattern WorkBodyGot = 8

-- | Requests served since the thread last yielded.
pattern WorkBurst :: Int
pattern WorkBurst = 9

-- | Bytes of content sent for the current reply.
pattern WorkSent :: Int
pattern WorkSent = 10

-- | What the handler has done by 'Heddle.Http.replyNow': 0 nothing, 1 begun a reply, 2 finished
-- one, 3 the same and the connection closes, 4 ended a tunnel.
pattern WorkReplied :: Int
pattern WorkReplied = 11

-- | 1 when output was sent since this was last set to 0.
pattern WorkPushed :: Int
pattern WorkPushed = 12

-- | 1 when the handler wants the connection closed after its reply.
pattern WorkCloses :: Int
pattern WorkCloses = 13

-- | 1 until the first request after the conversation began.
pattern WorkFirst :: Int
pattern WorkFirst = 14

-- | 1 for a stream of HTTP/2, 0 for a connection of HTTP/1.
pattern WorkStream :: Int
pattern WorkStream = 15

-- | Bytes of the body's content read so far.
pattern WorkBodyTotal :: Int
pattern WorkBodyTotal = 16

-- | When the last wait for the body ended (monotonic nanoseconds).
pattern WorkBodyLast :: Int
pattern WorkBodyLast = 17

-- | What was noted of the request apart from its head: 'NoteReply', 'NoteUpstream' and 'NoteLog', and above them the bytes in use for headers that
-- were added. One word, so that beginning a request stores one zero, and a reply without notes loads one.
pattern WorkNotes :: Int
pattern WorkNotes = 18

-- | How long a server behind took (nanoseconds), with 'NoteUpstream'.
pattern WorkUpstream :: Int
pattern WorkUpstream = 19

-- | The longest body of a stream of HTTP/2.
pattern WorkBodyMost :: Int
pattern WorkBodyMost = 20

-- | The reply gets the lines in 'workHeaders'.
pattern NoteReply :: Int
pattern NoteReply = 1

-- | 'WorkUpstream' is this request's.
pattern NoteUpstream :: Int
pattern NoteUpstream = 2

-- | Logs are to know what is in 'workLogged'.
pattern NoteLog :: Int
pattern NoteLog = 4

-- | Bytes in use behind the input, for headers that were added to the request.
--
-- [Cost]: one load.
addedBytes :: Workspace -> IO Int
addedBytes ws = (`unsafeShiftR` 3) <$> get ws WorkNotes
{-# INLINE addedBytes #-}

-- | Whether this was noted of the request.
--
-- [Cost]: one load.
isNoted :: Workspace -> Int -> IO Bool
isNoted ws note = (\notes -> notes .&. note /= 0) <$> get ws WorkNotes
{-# INLINE isNoted #-}
