-- |
-- Module      : Heddle.OpenFlow.FakeSwitch
-- Description : A switch without packets, to test controllers with
-- Stability   : stable
--
-- Connects to a controller, does the handshake, answers echo requests and barriers, and gives everything else to the test.
-- "Heddle.OpenFlow.Load" loads a controller with many of them.
--
-- Cost: messages are decoded and encoded as values.
-- Owner: the thread that has it.
module Heddle.OpenFlow.FakeSwitch
  ( FakeSwitch,
    FakeOptions (..),
    fakeSwitch,
    withFakeSwitch,
    fakeVersion,
    fakeSend,
    fakeSendBytes,
    fakePacketIn,
    fakeReceive,
    fakeReceiveUntil,
    fakeReceiveWhere,
    FakeEnd (..),
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.IO (Conn, RecvResult (..), Runtime, close, connectUntil, recvUntil, sendAllUntil)
import Heddle.OpenFlow.Match
import Heddle.OpenFlow.Message
import Heddle.OpenFlow.Multipart
import Heddle.OpenFlow.Types
import Heddle.OpenFlow.Wire (DecodeError)
import Heddle.Prim.Atomic
import Heddle.Prim.Clock
import Heddle.Prim.Exception
import Network.Socket (SockAddr)

-- | The switch's description of itself.
data FakeOptions = FakeOptions
  { fakeDatapath :: !DatapathId,
    fakeVersions :: ![Version],
    fakePorts :: !Int,
    -- | The limit of the handshake, and of each wait for a message.
    fakePatience :: !Nanos
  }

-- | Both versions, four ports, ten seconds.
fakeSwitch :: DatapathId -> FakeOptions
fakeSwitch datapath = FakeOptions datapath [OF10, OF13] 4 (seconds 10)

-- | A connected switch.
data FakeSwitch = FakeSwitch
  { fakeConn :: !Conn,
    fakeOptions :: !FakeOptions,
    -- | The version that was agreed on.
    fakeVersion :: !Version,
    fakeLeft :: !(Ref ByteString)
  }

-- | Why there is no message.
data FakeEnd
  = -- | The controller closed the connection.
    FakeClosed
  | -- | Nothing came in time.
    FakeLate
  deriving stock (Eq, Show)

instance Exception FakeEnd

-- | Connect, do the handshake, run, close.
--
-- [Blocks]: parks.
-- [Throws]: 'Heddle.IO.ConnectError', 'FakeEnd', 'IOError' when the controller's messages cannot be read.
withFakeSwitch :: Runtime -> SockAddr -> FakeOptions -> (FakeSwitch -> IO a) -> IO a
withFakeSwitch runtime address options body = bracket (connected >>= either throwIO pure) close $ \conn -> do
  left <- newRef B.empty
  let highest = maximum (fakeVersions options)
      start = FakeSwitch conn options highest left
  fakeSend start 0 (helloFor (fakeVersions options))
  deadline <- deadlineIn (fakePatience options)
  hello <- nextFrame start deadline >>= either throwIO pure
  version <- case decodeHello hello of
    Right (_, h) | Just v <- negotiate (fakeVersions options) (B.head hello) h -> pure v
    _ -> ioError (userError ("no hello, or no version in common: " ++ show (B.unpack (B.take 16 hello))))
  let fake = start {fakeVersion = version}
  introduce fake deadline
  body fake
  where
    -- The controller's first question.
    introduce fake deadline =
      nextFrame fake deadline >>= either throwIO pure >>= \bytes -> case decode (fakeVersion fake) bytes of
        Right (xid, FeaturesRequest) -> fakeSend fake xid (describeFake fake)
        Right _ -> introduce fake deadline
        Left e -> unreadable e
    connected = deadlineIn (fakePatience options) >>= connectUntil runtime address

-- | Send a message.
--
-- [Blocks]: parks.
-- [Throws]: 'IOError' if the version has no form for it.
fakeSend :: FakeSwitch -> Xid -> Message -> IO ()
fakeSend fake xid m = either (ioError . userError . show) (fakeSendBytes fake) (encode (fakeVersion fake) xid m)

-- | Send bytes as they are, also wrong ones.
--
-- [Blocks]: parks.
fakeSendBytes :: FakeSwitch -> ByteString -> IO ()
fakeSendBytes fake bytes = do
  deadline <- deadlineIn (fakePatience (fakeOptions fake))
  void (sendAllUntil (fakeConn fake) bytes deadline)

-- | Send a packet to the controller, as if it had come in at a port.
--
-- [Blocks]: parks.
fakePacketIn :: FakeSwitch -> BufferId -> PortNo -> ByteString -> IO ()
fakePacketIn fake buffer port bytes =
  fakeSend fake 0 (PacketInMessage (PacketIn buffer (fromIntegral (B.length bytes)) ReasonNoMatch 0 0 (Match [oxm InPort (toInteger (portWord port))]) bytes))

-- | The next message. Echo requests, barriers, and questions about features, configuration and ports are answered on the way.
--
-- [Blocks]: parks, for 'fakePatience' at most.
fakeReceive :: FakeSwitch -> IO (Either FakeEnd (Xid, Message))
fakeReceive fake = do
  deadline <- deadlineIn (fakePatience (fakeOptions fake))
  fakeReceiveUntil fake deadline

-- | The first message for which the function has an answer; others are dropped.
--
-- [Blocks]: parks, for 'fakePatience' at most.
fakeReceiveWhere :: FakeSwitch -> (Xid -> Message -> Maybe a) -> IO (Either FakeEnd a)
fakeReceiveWhere fake wanted = deadlineIn (fakePatience (fakeOptions fake)) >>= go
  where
    go deadline =
      fakeReceiveUntil fake deadline >>= \case
        Left e -> pure (Left e)
        Right (xid, m) -> maybe (go deadline) (pure . Right) (wanted xid m)

-- | 'fakeReceive' with a deadline of the caller's. Do not interrupt it: what it has read then may be lost.
--
-- [Blocks]: parks.
fakeReceiveUntil :: FakeSwitch -> Deadline -> IO (Either FakeEnd (Xid, Message))
fakeReceiveUntil fake deadline =
  nextFrame fake deadline >>= \case
    Left e -> pure (Left e)
    Right bytes -> case decode (fakeVersion fake) bytes of
      Left e -> unreadable e
      Right (xid, m) -> case m of
        EchoRequest b -> answer xid (EchoReply b)
        BarrierRequest -> answer xid BarrierReply
        FeaturesRequest -> answer xid (describeFake fake)
        GetConfigRequest -> answer xid (GetConfigReply (SwitchConfig 0 0xffff))
        MultipartRequest _ PortDescriptionRequest -> answer xid (MultipartReply 0 (PortDescriptionReply (portsOf fake)))
        _ -> pure (Right (xid, m))
  where
    answer xid m = fakeSend fake xid m >> fakeReceiveUntil fake deadline

unreadable :: DecodeError -> IO a
unreadable e = ioError (userError ("the controller sent what cannot be read: " ++ show e))

describeFake :: FakeSwitch -> Message
describeFake fake = FeaturesReply (Features (fakeDatapath (fakeOptions fake)) 0x10000 1 0 0 0 (if fakeVersion fake == OF10 then portsOf fake else []))

portsOf :: FakeSwitch -> [Port]
portsOf fake = [Port (PortNo (fromIntegral n)) (Mac (fakeDatapath (fakeOptions fake) * 256 + fromIntegral n)) B.empty 0 0 0 0 0 0 0 0 | n <- [1 .. fakePorts (fakeOptions fake)]]

nextFrame :: FakeSwitch -> Deadline -> IO (Either FakeEnd ByteString)
nextFrame fake deadline = readRef (fakeLeft fake) >>= go
  where
    go bytes
      | B.length bytes >= 8,
        n <- size bytes,
        n >= 8,
        B.length bytes >= n = do
        writeRef (fakeLeft fake) (B.drop n bytes)
        pure (Right (B.take n bytes))
      | otherwise =
        recvUntil (fakeConn fake) 0x10000 deadline >>= \case
          Got more -> go (bytes <> more)
          Eof -> pure (Left FakeClosed)
          Closed -> pure (Left FakeClosed)
          TimedOut -> do
            writeRef (fakeLeft fake) bytes
            pure (Left FakeLate)
    size b = fromIntegral (B.index b 2) * 256 + fromIntegral (B.index b 3)
