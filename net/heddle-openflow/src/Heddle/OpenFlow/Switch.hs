{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.OpenFlow.Switch
-- Description : A connected switch: its words, its output, its mailbox
-- Stability   : hidden; "Heddle.OpenFlow.Controller" exports what is public
--
-- One thread, the owner, reads and writes a switch's connection. Other threads put messages into its mailbox and wake
-- it.
--
-- Invariant: only the owner writes to the socket, so messages of one thread keep their order; the mailbox and both
-- buffers are bounded; a switch without traffic owns no buffer.
-- Cost: a message put into the output costs its stores; nothing is allocated.
-- Owner: the owner thread; where a function says so, any thread.
-- Shared writes per packet-in: 0.
module Heddle.OpenFlow.Switch
  ( -- * Switches
    Switch (..),
    SwitchInfo (..),
    infoPorts,
    newSwitch,
    bufferBytes,
    Places (..),
    pattern WordFrame,
    pattern WordFrameSize,
    pattern WordFollowing,
    pattern WordHeard,
    pattern WordEchoed,
    pattern WordPacketIns,
    pattern WordMessages,
    pattern WordUndecodable,
    pattern WordDropped,
    pattern WordSent,
    pattern WordWaiting,
    pattern WordOutEnd,
    CloseReason (..),
    renderReason,
    giveUp,
    SwitchCounts (..),
    switchCounts,

    -- * The present frame
    withFrame,
    following,

    -- * Output
    reserve,
    written,
    emitBytes,
    emit,
    flushOutput,
    dropOutput,

    -- * Mailbox
    SendResult (..),
    trySend,
    sendUntil,
    trySendBytes,
    sendBytesUntil,
    drainMail,
    firstOwnXid,
    nextXids,

    -- * Pending requests
    Pending (..),
    addPending,
    removePending,
    takePending,
  )
where

import Control.Applicative ((<|>))
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Short (ShortByteString, fromShort)
import Data.ByteString.Unsafe qualified as B (unsafeUseAsCStringLen)
import Data.Either (fromRight)
import Data.IntMap.Strict (IntMap)
import Data.IntMap.Strict qualified as IntMap
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (IntPtr (..), Ptr, castPtr, intPtrToPtr, ptrToIntPtr)
import Heddle.IO.Registration hiding (sendUntil)
import Heddle.IO.Transport
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart (Port, portCodec)
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire (Codec (..), EncodeError, listOf, runGet)
import Heddle.Prim.Atomic hiding (Places)
import Heddle.Prim.Buffer
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), describeErrno)
import Heddle.Prim.Exception (Exception (..), throwIO)
import Heddle.Timer (sleepUntil)

-- | A switch's number, version, address and features.
data SwitchInfo = SwitchInfo
  { infoDatapath :: !DatapathId,
    infoVersion :: !Version,
    -- | Without its ports: 'infoPorts' has them.
    infoFeatures :: !Features,
    -- | 1.0: the ports as they came. Decoded, each would be several times as large, and most users never look at them.
    infoPortBytes :: !ShortByteString,
    -- | Its address, as text.
    infoPeer :: !String,
    -- | A number for this connection, from 0 on; numbers of closed connections are used again.
    infoNumber :: !Int
  }
  deriving stock (Show)

-- | The ports that a switch of 1.0 has named while it connected; 1.3 asks for them by
-- 'Heddle.OpenFlow.Controller.askPorts'.
--
-- [Cost]: O(ports), each time.
infoPorts :: SwitchInfo -> [Port]
-- The handshake has decoded them before.
infoPorts = fromRight [] . runGet (codecGet (listOf (portCodec OF10))) . fromShort . infoPortBytes

-- | A connected switch.
data Switch = Switch
  { switchTransport :: !Transport,
    -- | Its description of itself.
    switchInfo :: !SwitchInfo,
    switchWords :: !Words,
    switchInput :: !(Ref (Places Buffer)),
    switchOutput :: !(Ref (Places Buffer)),
    -- | Buffers of the owner's capability, of 'bufferBytes'.
    switchPool :: !(Pool Buffer),
    switchMail :: !(Ref Mail),
    -- | The most bytes in the mailbox.
    switchMailRoom :: !Int,
    switchPending :: !(Ref (IntMap Pending)),
    -- | The time that a write may make no progress.
    switchStall :: !Nanos,
    -- | The time that 'request' waits.
    switchPatience :: !Nanos,
    -- | Why it ended, once it has.
    switchEnd :: !(Ref (Maybe CloseReason)),
    -- | Marks the body that the calling thread runs, if any, as waiting.
    switchWhileWaiting :: !(forall a. IO a -> IO a)
  }

instance Eq Switch where
  a == b = sameRef (switchMail a) (switchMail b)

instance Show Switch where
  show s = "switch " ++ renderDatapath (infoDatapath (switchInfo s))

-- | A buffer, or none.
data Places a = Empty | Holding !a

-- Newest first; the number of bytes. Nothing once the owner has ended.
data Mail = Mail !Int ![ByteString] | MailClosed

-- | A reader of messages with a transaction number. It is run by the owner, gets the frame, and says whether it has
-- all that it waits for; at the end of the connection it gets 'Nothing'.
newtype Pending = Pending (Maybe ByteString -> IO Bool)

-- The words of a switch. All but WordWaiting, WordXid and WordDropped are written by the owner only; others read them
-- for metrics.
pattern WordFrame, WordFrameSize, WordOutEnd, WordOutLimit, WordOutBase, WordHeard, WordEchoed, WordPacketIns, WordMessages, WordUndecodable, WordDropped, WordSent, WordFollowing, WordWaiting, WordXid :: Int

-- | The address of the frame that is being handled.
pattern WordFrame = 0

pattern WordFrameSize = 1

-- | Bytes in the output.
pattern WordOutEnd = 2

-- The size of the output's buffer; 0 without one.
pattern WordOutLimit = 3

pattern WordOutBase = 4

-- | When something was last received.
pattern WordHeard = 5

-- | When an echo request was sent that nothing has followed yet; 0 for none.
pattern WordEchoed = 6

pattern WordPacketIns = 7

pattern WordMessages = 8

pattern WordUndecodable = 9

pattern WordSent = 10

-- | The number of bytes that have come after the frame that is being handled.
pattern WordFollowing = 11

-- Words that other threads write, on lines of their own.
pattern WordXid = 16

-- | The number of requests that the switch's body waits for.
pattern WordWaiting = 24

-- | Packet-ins dropped because the body was behind.
pattern WordDropped = 32

-- | The size of both buffers: a window of 512 packet-ins fits.
bufferBytes :: Int
bufferBytes = 0x10000

newSwitch :: Transport -> Pool Buffer -> SwitchInfo -> Int -> Nanos -> Nanos -> (forall a. IO a -> IO a) -> IO Switch
newSwitch transport pool info room stall patience whileWaiting = do
  ws <- newWords 40
  writeWord ws WordXid (fromIntegral firstOwnXid)
  input <- newRef Empty
  output <- newRef Empty
  mail <- newRef (Mail 0 [])
  pending <- newRef IntMap.empty
  end <- newRef Nothing
  pure (Switch transport info ws input output pool mail room pending stall patience end whileWaiting)

-- | Why a connection ended.
data CloseReason
  = -- | The switch closed it.
    SwitchClosed
  | -- | Reading or writing failed.
    ConnectionFailed !String
  | -- | It broke the protocol.
    ProtocolBroken !String
  | -- | It was silent for too long.
    Silent
  | -- | It did not take what was sent for it.
    NotReading
  | -- | A handler failed.
    HandlerFailed !String
  | -- | A newer connection of the same datapath took its place.
    Replaced
  | -- | The controller stopped.
    ControllerStopped
  | -- | TLS or the handshake failed.
    HandshakeFailed !String
  deriving stock (Eq, Show)

instance Exception CloseReason

-- | For logs.
renderReason :: CloseReason -> String
renderReason = \case
  SwitchClosed -> "the switch closed the connection"
  ConnectionFailed why -> "the connection failed: " ++ why
  ProtocolBroken why -> "the switch broke the protocol: " ++ why
  Silent -> "the switch was silent, and did not answer an echo request"
  NotReading -> "the switch did not take what was sent for it"
  HandlerFailed why -> "the handler failed: " ++ why
  Replaced -> "a newer connection of the same datapath took its place"
  ControllerStopped -> "the controller stops"
  HandshakeFailed why -> "the handshake failed: " ++ why

-- | Close a switch's connection, for a reason; the first reason counts.
--
-- [Blocks]: never.
-- [Threads]: any.
giveUp :: Switch -> CloseReason -> IO ()
giveUp switch reason = do
  modifyRef (switchEnd switch) (\old -> (old <|> Just reason, ()))
  void (closeRegistration (transportRegistration (switchTransport switch)))

-- | Counts of what was received from a switch, and sent.
data SwitchCounts = SwitchCounts
  { countsPacketIns :: !Int,
    countsMessages :: !Int,
    countsUndecodable :: !Int,
    -- | Packet-ins that a body in direct style did not get because it waited and its queue was full.
    countsDropped :: !Int,
    -- | Bytes.
    countsSent :: !Int
  }
  deriving stock (Eq, Show)

-- | The counts of a switch's connection; for any thread.
switchCounts :: Switch -> IO SwitchCounts
switchCounts switch = SwitchCounts <$> at WordPacketIns <*> at WordMessages <*> at WordUndecodable <*> at WordDropped <*> at WordSent
  where
    at = readWord (switchWords switch)

-- | The frame that is being handled: valid until the handler returns.
--
-- [Cost]: two loads.
-- [Threads]: the owner.
withFrame :: Switch -> (Ptr Word8 -> Int -> IO r) -> IO r
withFrame switch use = do
  at <- readWord (switchWords switch) WordFrame
  n <- readWord (switchWords switch) WordFrameSize
  use (intPtrToPtr (IntPtr at)) n
{-# INLINE withFrame #-}

-- | The number of bytes that have come already and follow the frame that is being handled: a handler may look at what
-- comes next, such as to prefetch. They are not checked: they may be the beginning of a frame, or none.
--
-- [Cost]: a load.
-- [Threads]: the owner.
following :: Switch -> IO Int
following switch = readWord (switchWords switch) WordFollowing
{-# INLINE following #-}

-- | The address where the next message goes, with room for this many bytes (at most 16 KiB); follow it with 'written'.
-- Sends what is there if there is no room.
--
-- [Cost]: three loads.
-- [Blocks]: parks when the output is full and the switch does not read.
-- [Throws]: 'CloseReason'.
-- [Threads]: the owner.
reserve :: Switch -> Int -> IO (Ptr Word8)
reserve switch n = do
  end <- readWord ws WordOutEnd
  limit <- readWord ws WordOutLimit
  base <- if end + n <= limit then readWord ws WordOutBase else makeRoom switch
  at <- readWord ws WordOutEnd
  pure (intPtrToPtr (IntPtr (base + at)))
  where
    ws = switchWords switch
{-# INLINE reserve #-}

-- | Count a message of this size that was written where 'reserve' said.
written :: Switch -> Int -> IO ()
written switch n = do
  let ws = switchWords switch
  end <- readWord ws WordOutEnd
  writeWord ws WordOutEnd (end + n)
{-# INLINE written #-}

makeRoom :: Switch -> IO Int
makeRoom switch = do
  flushOutput switch
  readRef (switchOutput switch) >>= \case
    Holding _ -> pure ()
    Empty -> do
      buffer <- borrow (switchPool switch)
      writeRef (switchOutput switch) (Holding buffer)
      let IntPtr base = ptrToIntPtr (bufferPtr buffer)
      writeWord ws WordOutBase base
      writeWord ws WordOutLimit (bufferSize buffer)
  readWord ws WordOutBase
  where
    ws = switchWords switch
{-# NOINLINE makeRoom #-}

-- | Send what the output holds.
--
-- [Cost]: one system call, if there is any.
-- [Blocks]: parks while the socket is full, for 'switchStall' at most.
-- [Throws]: 'CloseReason'.
-- [Threads]: the owner.
flushOutput :: Switch -> IO ()
flushOutput switch = do
  end <- readWord ws WordOutEnd
  when (end > 0) $
    readRef (switchOutput switch) >>= \case
      Empty -> pure ()
      Holding buffer -> do
        writeWord ws WordOutEnd 0
        withBuffer buffer (\p -> sendAll switch p end)
  where
    ws = switchWords switch

sendAll :: Switch -> Ptr Word8 -> Int -> IO ()
sendAll switch p n = do
  now <- freshNow (transportRegistration (switchTransport switch))
  r <- writeUntil (switchTransport switch) p n (after (switchStall switch) now)
  sent <- readWord (switchWords switch) WordSent
  writeWord (switchWords switch) WordSent (sent + n)
  when (r < 0) (throwIO (if r == TimedOutCode then NotReading else reasonOfCode r))

reasonOfCode :: Int -> CloseReason
reasonOfCode r
  | r == ClosedCode = ControllerStopped
  | otherwise = ConnectionFailed (describeErrno (Errno (negate r)))

-- | Give the output's buffer back; it is empty, or what is in it is dropped.
dropOutput :: Switch -> IO ()
dropOutput switch =
  readRef (switchOutput switch) >>= \case
    Empty -> pure ()
    Holding buffer -> do
      writeRef (switchOutput switch) Empty
      writeWord (switchWords switch) WordOutEnd 0
      writeWord (switchWords switch) WordOutLimit 0
      giveBack (switchPool switch) buffer

-- | Put a whole message into the output.
--
-- [Cost]: a copy.
-- [Blocks]: as 'reserve'.
-- [Throws]: 'CloseReason'.
-- [Threads]: the owner.
emitBytes :: Switch -> ByteString -> IO ()
emitBytes switch bytes
  | n > 0x4000 = flushOutput switch >> B.unsafeUseAsCStringLen bytes (\(p, m) -> sendAll switch (castPtr p) m)
  | otherwise = do
    out <- reserve switch n
    B.unsafeUseAsCStringLen bytes (\(p, m) -> copyBytes out (castPtr p) m)
    written switch n
  where
    n = B.length bytes

-- | 'emitBytes' of a message with this transaction number.
--
-- [Blocks]: as 'reserve'.
-- [Throws]: 'CloseReason'.
-- [Threads]: the owner.
emit :: Switch -> Xid -> Message -> IO (Either EncodeError ())
emit switch xid message = case encode (infoVersion (switchInfo switch)) xid message of
  Left e -> pure (Left e)
  Right bytes -> Right <$> emitBytes switch bytes

-- | The result of sending a message to a switch.
data SendResult
  = -- | It is in the mailbox, and will be sent in order.
    Sent
  | -- | There is no room: the switch is slow. Try later.
    Full
  | -- | The deadline passed before there was room.
    TimedOut
  | -- | The connection has ended.
    Gone
  | -- | The version has no form for it.
    Unsendable !EncodeError
  deriving stock (Eq, Show)

-- | Send a message with this transaction number: 0 for one without an answer, up to 0xfff for one whose answer comes
-- as a message. An answer with a larger number is taken for one to a 'Heddle.OpenFlow.Controller.request' that has
-- ended, and dropped.
--
-- [Cost]: encoding, a compare-and-set, and a wake-up of the owner.
-- [Blocks]: never.
-- [Threads]: any.
trySend :: Switch -> Xid -> Message -> IO SendResult
trySend switch xid message = case encode (infoVersion (switchInfo switch)) xid message of
  Left e -> pure (Unsendable e)
  Right bytes -> trySendBytes switch bytes

-- | 'trySend' of whole messages, one or several.
--
-- [Blocks]: never.
-- [Threads]: any.
trySendBytes :: Switch -> ByteString -> IO SendResult
trySendBytes switch bytes = do
  r <- modifyRef (switchMail switch) $ \case
    MailClosed -> (MailClosed, Gone)
    mail@(Mail n messages)
      | n > 0 && n + B.length bytes > switchMailRoom switch -> (mail, Full)
      | otherwise -> (Mail (n + B.length bytes) (bytes : messages), Sent)
  when (r == Sent) $ wakeReader (transportRegistration (switchTransport switch))
  pure r

-- | 'trySend' that waits for room until the deadline.
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Threads]: any but the switch's handlers, which run in the owner and would wait for themselves.
sendUntil :: Switch -> Deadline -> Xid -> Message -> IO SendResult
sendUntil switch deadline xid message = case encode (infoVersion (switchInfo switch)) xid message of
  Left e -> pure (Unsendable e)
  Right bytes -> sendBytesUntil switch deadline bytes

-- | 'sendUntil' of whole messages.
--
-- [Blocks]: parks.
-- [Threads]: as 'sendUntil'.
sendBytesUntil :: Switch -> Deadline -> ByteString -> IO SendResult
sendBytesUntil switch deadline bytes = go (milliseconds 1)
  where
    -- A slow switch is asked again after a while that grows: it has no list of those that wait for it.
    go pause =
      trySendBytes switch bytes >>= \case
        Full -> do
          now <- monotonicNow
          if now >= deadline then pure TimedOut else sleepUntil (min deadline (after pause now)) >> go (min (milliseconds 20) (pause <> pause))
        r -> pure r

-- | Move the mailbox into the output. 'True' if there was something.
--
-- [Blocks]: as 'reserve'.
-- [Threads]: the owner.
drainMail :: Switch -> IO Bool
drainMail switch =
  readRef (switchMail switch) >>= \case
    Mail _ (_ : _) -> do
      messages <- modifyRef (switchMail switch) $ \case
        Mail _ ms -> (Mail 0 [], ms)
        MailClosed -> (MailClosed, [])
      mapM_ (emitBytes switch) (reverse messages)
      pure (not (null messages))
    _ -> pure False

-- | The least transaction number of requests and commits; those below are the user's.
firstOwnXid :: Xid
firstOwnXid = 0x1000

-- | This many transaction numbers that nothing else uses: the first.
--
-- [Threads]: any.
nextXids :: Switch -> Int -> IO Xid
nextXids switch n = do
  first <- fetchAdd (switchWords switch) WordXid n
  let xid = fromIntegral first :: Xid
  if xid < firstOwnXid || fromIntegral xid + n > 0xffffffff then nextXids switch n else pure xid

-- | Wait for messages with a number. 'False' when the connection has ended.
addPending :: Switch -> [(Xid, Pending)] -> IO Bool
addPending switch entries = do
  modifyRef (switchPending switch) (\m -> (foldr (\(x, p) -> IntMap.insert (fromIntegral x) p) m entries, ()))
  closed <- (\case MailClosed -> True; _ -> False) <$> readRef (switchMail switch)
  when closed (removePending switch (map fst entries))
  pure (not closed)

removePending :: Switch -> [Xid] -> IO ()
removePending switch xids = modifyRef (switchPending switch) (\m -> (foldr (IntMap.delete . fromIntegral) m xids, ()))

-- | Close the mailbox, and what waits for answers, for ever.
takePending :: Switch -> IO ()
takePending switch = do
  writeMail
  waiting <- modifyRef (switchPending switch) (\m -> (IntMap.empty, IntMap.elems m))
  unless (null waiting) $ mapM_ (\(Pending p) -> p Nothing) waiting
  where
    writeMail = modifyRef (switchMail switch) (const (MailClosed, ()))
