-- |
-- Module      : Heddle.Socket
-- Description : The network package's sockets on Heddle's event managers
-- Stability   : stable
--
-- The names and types of "Network.Socket" and "Network.Socket.ByteString", over the system
-- runtime ('Heddle.IO.systemRuntime'): a program changes its imports. Unlike there, a
-- closed socket's descriptor is never used again, 'close' in one thread ends the waits of
-- all others, and a wait costs no system call.
--
-- Like the network package's, a socket that nothing refers to any more is closed by the garbage
-- collector, at an unpredictable time; call 'close' to close it earlier.
--
-- Invariant: a socket is registered once, when it is made.
-- Cost: that of "Heddle.IO"; waits have no deadline ("Heddle.Timer".'Heddle.Timer.timeout'
-- gives them one).
-- Owner: its maker; any thread may close it.
module Heddle.Socket
  ( -- * Addresses
    getAddrInfo,
    getNameInfo,
    AddrInfo (..),
    AddrInfoFlag (..),
    NameInfoFlag (..),
    defaultHints,
    SockAddr (..),
    HostName,
    ServiceName,
    PortNumber,
    HostAddress,
    HostAddress6,
    tupleToHostAddress,
    hostAddressToTuple,
    tupleToHostAddress6,
    hostAddress6ToTuple,

    -- * Life
    Socket,
    Family (..),
    SocketType (..),
    ProtocolNumber,
    defaultProtocol,
    socket,
    openSocket,
    socketPair,
    bind,
    listen,
    maxListenQueue,
    accept,
    connect,
    shutdown,
    ShutdownCmd (..),
    close,
    close',
    gracefulClose,
    withSocketsDo,

    -- * Bytes
    recv,
    recvBuf,
    send,
    sendBuf,
    sendAll,
    sendMany,

    -- * Names and options
    getSocketName,
    getPeerName,
    socketPort,
    SocketOption (..),
    setSocketOption,
    getSocketOption,
    isConnected,

    -- * In "Heddle.IO"
    withFdSocket,
    socketConn,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Internal (createAndTrim)
import Data.Int (Int32)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.C.Types (CInt)
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (peek, poke)
import Heddle.IO.Connection hiding (close, unpark)
import Heddle.IO.Connection qualified as Conn
import Heddle.IO.Internal.Address
import Heddle.IO.Internal.Listener (removeStaleSocket)
import Heddle.IO.Internal.Manager
import Heddle.IO.Internal.PooledTimer (sleepOn)
import Heddle.IO.Internal.Registration
import Heddle.IO.Internal.Runtime
import Heddle.IO.Internal.TicketLock
import Heddle.IO.Internal.Transfer (IOClosed)
import Heddle.IO.Internal.Types
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception
import Heddle.Prim.Keeper (newKeeper)
import Heddle.Prim.Poller (eventOut, pollOne)
import Heddle.Prim.Socket qualified as S
import Heddle.Prim.WaitCell (reset)
import Heddle.Timer (timeout)
import Network.Socket
  ( AddrInfo (..),
    AddrInfoFlag (..),
    Family (..),
    HostAddress,
    HostAddress6,
    HostName,
    NameInfoFlag (..),
    PortNumber,
    ProtocolNumber,
    ServiceName,
    ShutdownCmd (..),
    SockAddr (..),
    SocketOption (..),
    SocketType (..),
    defaultHints,
    defaultProtocol,
    getAddrInfo,
    getNameInfo,
    hostAddress6ToTuple,
    hostAddressToTuple,
    maxListenQueue,
    packFamily,
    tupleToHostAddress,
    tupleToHostAddress6,
    withSocketsDo,
  )
import Network.Socket qualified as Network

-- | A socket.
data Socket = Socket
  { -- | The connection it is, for what only "Heddle.IO" offers.
    --
    -- @since 0.1.0.0
    socketConn :: !Conn,
    socketKind :: !SocketType
  }
  deriving stock (Eq)

instance Show Socket where
  show s = "<socket: " ++ show (registrationFd (connRegistration (socketConn s))) ++ ">"

registrationOfSocket :: Socket -> Registration
registrationOfSocket = connRegistration . socketConn

-- A registration as a socket that the collector may close.
kept :: SocketType -> Conn -> IO Socket
kept kind conn = do
  keeper <- newKeeper (void (closeRegistration (connRegistration conn)))
  pure (Socket conn {connKeeper = Just keeper} kind)

-- A call on the socket, which the collector must not close meanwhile.
heldSocket :: Socket -> IO a -> IO a
heldSocket = held . socketConn
{-# INLINE heldSocket #-}

-- A code as Network.Socket throws it: a closed socket is EBADF.
refused :: String -> Int -> IO a
refused what r
  | r == ClosedCode = throwErrnoFor what EBADF
  | otherwise = throwErrnoFor what (Errno (negate r))

-- | A new socket, non-blocking and closed on exec.
--
-- [Cost]: two system calls.
-- [Blocks]: never.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
socket :: Family -> SocketType -> ProtocolNumber -> IO Socket
socket family kind protocol = mask_ $ do
  runtime <- systemRuntime
  m <- managerHere runtime
  let GeneralSocketType number = kind
  fd <- fromIntegral <$> checked "socket" (S.socket (fromIntegral (packFamily family)) (fromIntegral number) (fromIntegral protocol))
  registration <- newRegistration m Owned fd mempty Attached (\_ -> pure ()) `onException` S.closeSocket fd
  kept kind (connectionOf registration) `onException` closeRegistration registration

-- | A socket for an address that 'getAddrInfo' found.
--
-- [Cost]: two system calls.
-- [Blocks]: never.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
openSocket :: AddrInfo -> IO Socket
openSocket a = socket (addrFamily a) (addrSocketType a) (addrProtocol a)

-- | Two connected sockets.
--
-- [Cost]: eight system calls.
-- [Blocks]: never.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
socketPair :: Family -> SocketType -> ProtocolNumber -> IO (Socket, Socket)
socketPair family kind protocol = mask_ $ do
  runtime <- systemRuntime
  (x, y) <- Network.socketPair family kind protocol
  a <- adopt runtime x `onException` (Network.close x >> Network.close y)
  b <- adopt runtime y `onException` (Conn.close a >> Network.close y)
  (,) <$> kept kind a <*> kept kind b

-- | Give the socket an address. The file of a Unix socket whose server has ended is replaced, as
-- @Network.Socket.bind@ does.
--
-- [Cost]: one system call; five if a file of that name is there.
-- [Blocks]: holds an OS thread: a Unix socket makes a file.
-- [Throws]: 'IOError': EADDRINUSE, EACCES, EBADF when it is closed…
-- @since 0.1.0.0
bind :: Socket -> SockAddr -> IO ()
bind s address = do
  r <- attemptBind
  r' <- case address of
    SockAddrUnix path | Errno (negate r) == EADDRINUSE -> removeStaleSocket path address >> attemptBind
    _ -> pure r
  when (r' < 0) $ refused ("bind to " ++ renderAddress address) r'
  where
    attemptBind = heldSocket s (using (registrationOfSocket s) (withAddress address . S.bind))

-- | Listen; at most this many connections wait for 'accept'.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
listen :: Socket -> Int -> IO ()
listen s backlog = do
  r <- heldSocket s (using (registrationOfSocket s) (`S.listen` backlog))
  when (r < 0) $ refused "listen" r

-- | Accept a connection.
--
-- [Cost]: two system calls.
-- [Blocks]: parks until one comes.
-- [Masking]: interruptible; nothing accepted is lost.
-- [Throws]: 'IOError': EBADF when the socket is closed, EMFILE…
-- [Threads]: any number.
-- @since 0.1.0.0
accept :: Socket -> IO (Socket, SockAddr)
accept s = heldSocket s . mask_ $ do
  runtime <- systemRuntime
  m <- managerHere runtime
  allocaBytes (addressRoom + 8) $ \p -> do
    let size = (p `plusPtr` addressRoom) :: Ptr Int32
        go = do
          r <- attemptLocked (registrationOfSocket s) Readable never $ \fd -> poke size (fromIntegral addressRoom) >> S.acceptFrom fd p size
          case () of
            _
              | r >= 0 -> pure (fromIntegral r)
              | Errno (negate r) `elem` aborted -> go
              | otherwise -> refused "accept" r
    fd <- go
    do
      peer <- (peek size >>= peerBytes p . fromIntegral) `onException` S.closeSocket fd
      registration <- newRegistration m Owned fd peer Attached (\_ -> pure ()) `onException` S.closeSocket fd
      flip onException (closeRegistration registration) $ do
        address <- decodeAddress peer
        accepted <- kept (socketKind s) (connectionOf registration)
        pure (accepted, fromMaybe (SockAddrUnix "") address)
  where
    -- Errors of the new connection.
    aborted = [ENONET, EPROTO, ENOPROTOOPT, EOPNOTSUPP, ENETDOWN, ENETUNREACH, ECONNABORTED, EHOSTDOWN, EHOSTUNREACH]

-- | Connect.
--
-- [Cost]: two system calls, three when it has to wait.
-- [Blocks]: parks; a Unix socket's path lookup holds an OS thread.
-- [Masking]: interruptible; close the socket then.
-- [Throws]: 'IOError': ECONNREFUSED, ETIMEDOUT, EBADF when the socket is closed…
-- @since 0.1.0.0
connect :: Socket -> SockAddr -> IO ()
connect s address = heldSocket s (begin (milliseconds 1))
  where
    registration = registrationOfSocket s
    what = "connect to " ++ renderAddress address
    begin backOff = do
      r <- using registration (withAddress address . S.connect)
      let e = Errno (negate r)
      case () of
        _
          | r >= 0 -> pure ()
          | r == ClosedCode -> refused what r
          | e == EINPROGRESS || e == EINTR || e == EALREADY ->
            withDirection registration Writable never (pure ()) (pure 0) (const Nothing) (const finish)
          | e == EAGAIN -> do
            -- A Unix listener whose queue is full, for which nothing can be waited.
            deadlineIn backOff >>= sleepOn (registrationManager registration)
            begin (min (milliseconds 50) (backOff <> backOff))
          | otherwise -> refused what r
    finish = do
      _ <- reset (registrationWrite registration)
      r <- using registration (`pollOne` eventOut)
      case () of
        _
          | r == 0 -> waitUntil registration Writable never >> finish
          | r < 0 && Errno (negate r) == EINTR -> finish
          | r < 0 -> refused what r
          | otherwise -> do
            e <- using registration S.pendingError
            unless (e == 0) $ refused what (negate (abs e))

-- | End one or both directions.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
shutdown :: Socket -> ShutdownCmd -> IO ()
shutdown s how = do
  r <- heldSocket s . using (registrationOfSocket s) $ \fd -> S.shutdown fd $ case how of
    ShutdownReceive -> S.ShutRead
    ShutdownSend -> S.ShutWrite
    ShutdownBoth -> S.ShutBoth
  when (r < 0) $ refused "shutdown" r

-- | Close. Every wait on the socket ends with EBADF. Idempotent.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Threads]: any.
-- @since 0.1.0.0
close :: Socket -> IO ()
close = Conn.close . socketConn

-- | The same as 'close', which reports no error.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- @since 0.1.0.0
close' :: Socket -> IO ()
close' = close

-- | End sending, wait at most this many milliseconds for the peer's end, and close.
--
-- [Cost]: four system calls.
-- [Blocks]: parks.
-- [Masking]: interruptible; the socket is closed all the same.
-- [Units]: milliseconds, as in the network package.
-- @since 0.1.0.0
gracefulClose :: Socket -> Int -> IO ()
gracefulClose s limit = void (trySync (shutdown s ShutdownSend >> timeout (milliseconds limit) rest)) `finally` close s
  where
    rest = do
      bytes <- recv s 4096
      unless (B.null bytes) rest

-- | Receive at most this many bytes; an empty string is the end. A stream answers with at
-- most 32 KiB.
--
-- [Cost]: one system call, and a copy.
-- [Blocks]: parks until something can be read.
-- [Masking]: interruptible while parked.
-- [Throws]: 'IOError': EINVAL for a count below 1, EBADF when the socket is closed…
-- [Threads]: any number; they take turns.
-- @since 0.1.0.0
recv :: Socket -> Int -> IO ByteString
recv s n
  | socketKind s == Stream =
    recvUntil (socketConn s) n never >>= \case
      Got bytes -> pure bytes
      Eof -> pure B.empty
      TimedOut -> pure B.empty
      Closed -> refused "recv" ClosedCode
  | n < 1 = throwErrnoFor ("recv with length " ++ show n) EINVAL
  | otherwise = createAndTrim n (\p -> recvBuf s p n)

-- | 'recv' to an address; 0 is the end.
--
-- [Cost]: one system call.
-- [Blocks]: parks until something can be read.
-- [Masking]: interruptible while parked.
-- [Throws]: as 'recv'.
-- [Threads]: as 'recv'.
-- @since 0.1.0.0
recvBuf :: Socket -> Ptr Word8 -> Int -> IO Int
recvBuf s p n
  | n < 1 = throwErrnoFor ("recvBuf with length " ++ show n) EINVAL
  | otherwise = do
    r <- heldSocket s (attemptLocked (registrationOfSocket s) Readable never (\fd -> S.recv fd p n))
    if r < 0 then refused "recv" r else pure r

-- | Send; the count may be short.
--
-- [Cost]: one system call.
-- [Blocks]: parks until something can be written.
-- [Masking]: interruptible while parked.
-- [Throws]: 'IOError': EPIPE, ECONNRESET, EBADF when the socket is closed…
-- [Threads]: any number; they take turns, and what one call sends stays whole.
-- @since 0.1.0.0
send :: Socket -> ByteString -> IO Int
send s bytes = B.useAsCStringLen bytes $ \(p, n) -> sendBuf s (castPtr p) n

-- | 'send' from an address.
--
-- [Cost]: one system call.
-- [Blocks]: parks until something can be written.
-- [Masking]: interruptible while parked.
-- [Throws]: as 'send'.
-- [Threads]: any number; they take turns, and what one call sends stays whole.
-- @since 0.1.0.0
sendBuf :: Socket -> Ptr Word8 -> Int -> IO Int
sendBuf s p n = do
  r <- heldSocket s (attemptLocked (registrationOfSocket s) Writable never (\fd -> S.send fd p n))
  if r < 0 then refused "send" r else pure r

-- | Send all bytes.
--
-- [Cost]: one system call, if the kernel takes them at once.
-- [Blocks]: parks while the peer does not read.
-- [Masking]: interruptible while parked; how much went is then unknown.
-- [Throws]: as 'send'.
-- [Threads]: any number; they take turns, and what one call sends stays whole.
-- @since 0.1.0.0
sendAll :: Socket -> ByteString -> IO ()
sendAll s bytes = sendAllUntil (socketConn s) bytes never >>= allSent

-- | Send all bytes of all strings.
--
-- [Cost]: one system call for every 256 strings, if the kernel takes them at once.
-- [Blocks]: parks while the peer does not read.
-- [Masking]: interruptible while parked; how much went is then unknown.
-- [Throws]: as 'send'.
-- [Threads]: any number; they take turns, and what one call sends stays whole.
-- @since 0.1.0.0
sendMany :: Socket -> [ByteString] -> IO ()
sendMany s strings = sendVUntil (socketConn s) strings never >>= allSent

allSent :: SendResult -> IO ()
allSent = \case
  Sent -> pure ()
  SendTimedOut _ -> pure () -- never comes: there is no deadline
  SendClosed _ -> refused "send" ClosedCode

-- | The socket's own address.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
getSocketName :: Socket -> IO SockAddr
getSocketName s = named (localAddress (socketConn s))

-- | The peer's address.
--
-- [Cost]: one system call at most.
-- [Blocks]: never.
-- [Throws]: 'IOError': ENOTCONN, EBADF when it is closed.
-- @since 0.1.0.0
getPeerName :: Socket -> IO SockAddr
getPeerName s = do
  r <- askPeer s
  when (r < 0) $ refused "getPeerName" r
  named (peerAddress (socketConn s))

named :: IO (Maybe SockAddr) -> IO SockAddr
named ask =
  (fromMaybe (SockAddrUnix "") <$> ask) `catch` \(_ :: IOClosed) -> refused "ask for a socket's address" ClosedCode

-- | Whether the socket has a peer.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- @since 0.1.0.0
isConnected :: Socket -> IO Bool
isConnected s = (>= 0) <$> askPeer s

-- Negative if there is none.
askPeer :: Socket -> IO Int
askPeer s = allocaBytes (addressRoom + 8) $ \p -> do
  let size = p `plusPtr` addressRoom
  poke size (fromIntegral addressRoom :: Int32)
  heldSocket s (using (registrationOfSocket s) (\fd -> S.peerName fd p size))

-- | The port of the socket's own address.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Throws]: 'IOError' (EINVAL) for a Unix socket.
-- @since 0.1.0.0
socketPort :: Socket -> IO PortNumber
socketPort s =
  getSocketName s >>= \case
    SockAddrInet port _ -> pure port
    SockAddrInet6 port _ _ _ -> pure port
    _ -> throwErrnoFor "socketPort of a Unix socket" EINVAL

-- | Set an option whose value is a number.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Throws]: 'IOError'; EINVAL for 'Linger', with which closing would have to wait.
-- @since 0.1.0.0
setSocketOption :: Socket -> SocketOption -> Int -> IO ()
setSocketOption s option@(SockOpt level name) value
  | option == Linger = throwErrnoFor "set SO_LINGER, with which close would wait; use gracefulClose" EINVAL
  | otherwise = do
    r <- heldSocket s $ using (registrationOfSocket s) (\fd -> S.setOption fd (S.Option (fromIntegral level) (fromIntegral name)) value)
    when (r < 0) $ refused "setSocketOption" r

-- | An option's value.
--
-- [Cost]: one system call.
-- [Blocks]: never.
-- [Throws]: 'IOError'.
-- @since 0.1.0.0
getSocketOption :: Socket -> SocketOption -> IO Int
getSocketOption s (SockOpt level name) = do
  r <- heldSocket s $ using (registrationOfSocket s) (\fd -> S.getOption fd (S.Option (fromIntegral level) (fromIntegral name)))
  if r < 0 then refused "getSocketOption" r else pure r

-- | The descriptor, valid until the socket is closed; within the action the collector does
-- not close it.
--
-- [Cost]: O(1).
-- @since 0.1.0.0
withFdSocket :: Socket -> (CInt -> IO a) -> IO a
withFdSocket s use = heldSocket s . use $ fromIntegral (registrationFd (registrationOfSocket s))
