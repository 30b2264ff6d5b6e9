{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Prim.Socket
-- Description : Socket system calls
-- Stability   : stable
--
-- One function per system call; a result is minus the error number when it failed. All
-- descriptors made here are non-blocking and closed on exec; sends never raise SIGPIPE.
--
-- Cost: one system call each, as an unsafe foreign call (about 5 ns on top).
-- Owner: the caller, which keeps the descriptor open.
module Heddle.Prim.Socket
  ( -- * Bytes
    recv,
    peek,
    send,
    sendMore,
    sendVector,
    readFd,
    writeFd,

    -- * Life
    socket,
    bind,
    listen,
    acceptFrom,
    connect,
    shutdown,
    closeSocket,
    duplicate,
    setNonBlocking,

    -- * Names and options
    localName,
    peerName,
    setOption,
    getOption,
    pendingError,

    -- * The kernel's numbers
    pattern FamilyUnix,
    pattern FamilyInet,
    pattern FamilyInet6,
    pattern TypeStream,
    pattern ShutRead,
    pattern ShutWrite,
    pattern ShutBoth,
    Option (..),
    pattern ReuseAddress,
    pattern SocketKind,
    pattern PendingError,
    pattern ReusePort,
    pattern Listening,
    pattern NoDelay,
    pattern NotSentLowWater,
    pattern Inet6Only,
  )
where

import Data.Int (Int32)
import Data.Word (Word8)
import Foreign.C.Types (CInt (..), CLong (..), CSize (..))
import Foreign.Ptr (Ptr)
import System.Posix.Types (Fd (..))

-- | Receive at most this many bytes; 0 is the peer's end.
--
-- [Blocks]: never.
recv :: Fd -> Ptr Word8 -> Int -> IO Int
recv (Fd fd) p n = fromIntegral <$> c_recv fd p (fromIntegral n)
{-# INLINE recv #-}

-- | 'recv' that leaves the bytes to be received again.
--
-- [Blocks]: never.
peek :: Fd -> Ptr Word8 -> Int -> IO Int
peek (Fd fd) p n = fromIntegral <$> c_peek fd p (fromIntegral n)

-- | Send; the result may be short.
--
-- [Blocks]: never.
send :: Fd -> Ptr Word8 -> Int -> IO Int
send (Fd fd) p n = fromIntegral <$> c_send fd p (fromIntegral n) 0
{-# INLINE send #-}

-- | Send, telling the kernel that more follows at once.
--
-- [Blocks]: never.
sendMore :: Fd -> Ptr Word8 -> Int -> IO Int
sendMore (Fd fd) p n = fromIntegral <$> c_send fd p (fromIntegral n) 1

-- | Send an array of this many @struct iovec@.
--
-- [Blocks]: never.
sendVector :: Fd -> Ptr Word8 -> Int -> IO Int
sendVector (Fd fd) p n = fromIntegral <$> c_writev fd p (fromIntegral n)

-- | read(2) from a non-blocking descriptor such as a pipe or a terminal.
--
-- [Blocks]: never, given a non-blocking descriptor that is not a disk file.
readFd :: Fd -> Ptr Word8 -> Int -> IO Int
readFd (Fd fd) p n = fromIntegral <$> c_read fd p (fromIntegral n)

-- | write(2) to a non-blocking descriptor such as a pipe or a terminal.
--
-- [Blocks]: never, given a non-blocking descriptor that is not a disk file.
writeFd :: Fd -> Ptr Word8 -> Int -> IO Int
writeFd (Fd fd) p n = fromIntegral <$> c_write fd p (fromIntegral n)

-- | @socket family type protocol@, in the kernel's numbers.
socket :: Int -> Int -> Int -> IO Int
socket f t p = fromIntegral <$> c_socket (fromIntegral f) (fromIntegral t) (fromIntegral p)

-- | Bind to a @struct sockaddr@ of this many bytes.
--
-- [Blocks]: holds an OS thread: a Unix socket creates a file.
bind :: Fd -> Ptr a -> Int -> IO Int
bind (Fd fd) p n = fromIntegral <$> c_bind fd p (fromIntegral n)

-- | Listen with this backlog.
listen :: Fd -> Int -> IO Int
listen (Fd fd) n = fromIntegral <$> c_listen fd (fromIntegral n)

-- | Accept one connection. The first pointer gets the peer's @sockaddr@; the second one holds the size of
-- that memory, and gets the address's length.
--
-- [Blocks]: never, given a non-blocking listener.
acceptFrom :: Fd -> Ptr a -> Ptr Int32 -> IO Int
acceptFrom (Fd fd) p n = fromIntegral <$> c_accept fd p n

-- | Begin to connect.
--
-- [Blocks]: holds an OS thread: a Unix socket looks up a path.
connect :: Fd -> Ptr a -> Int -> IO Int
connect (Fd fd) p n = fromIntegral <$> c_connect fd p (fromIntegral n)

-- | End directions: 'ShutRead', 'ShutWrite' or 'ShutBoth'.
shutdown :: Fd -> Int -> IO Int
shutdown (Fd fd) how = fromIntegral <$> c_shutdown fd (fromIntegral how)

-- | Close a socket.
--
-- [Blocks]: never: Heddle sets no SO_LINGER.
closeSocket :: Fd -> IO Int
closeSocket (Fd fd) = fromIntegral <$> c_close fd

-- | Another descriptor of the same socket, closed on exec.
duplicate :: Fd -> IO Int
duplicate (Fd fd) = fromIntegral <$> c_duplicate fd

-- | Make a descriptor non-blocking.
setNonBlocking :: Fd -> IO Int
setNonBlocking (Fd fd) = fromIntegral <$> c_nonblock fd

-- | The socket's own address.
localName :: Fd -> Ptr a -> Ptr Int32 -> IO Int
localName (Fd fd) p n = fromIntegral <$> c_name fd p n 0

-- | The peer's address.
peerName :: Fd -> Ptr a -> Ptr Int32 -> IO Int
peerName (Fd fd) p n = fromIntegral <$> c_name fd p n 1

-- | Set an option whose value is a number.
setOption :: Fd -> Option -> Int -> IO Int
setOption (Fd fd) (Option level name) v = fromIntegral <$> c_set fd (fromIntegral level) (fromIntegral name) (fromIntegral v)

-- | An option's value.
getOption :: Fd -> Option -> IO Int
getOption (Fd fd) (Option level name) = fromIntegral <$> c_get fd (fromIntegral level) (fromIntegral name)

-- | The error number waiting at the socket (SO_ERROR), 0 for none.
pendingError :: Fd -> IO Int
pendingError fd = getOption fd PendingError

-- Linux's numbers on x86-64 and Arm (asm-generic).

-- | Address families: AF_UNIX, AF_INET, AF_INET6.
pattern FamilyUnix, FamilyInet, FamilyInet6 :: Int
pattern FamilyUnix = 1
pattern FamilyInet = 2
pattern FamilyInet6 = 10

-- | SOCK_STREAM.
pattern TypeStream :: Int
pattern TypeStream = 1

-- | Directions of 'shutdown': SHUT_RD, SHUT_WR, SHUT_RDWR.
pattern ShutRead, ShutWrite, ShutBoth :: Int
pattern ShutRead = 0
pattern ShutWrite = 1
pattern ShutBoth = 2

-- | A socket option: its level and its name.
data Option = Option !Int !Int
  deriving stock (Eq, Show)

-- | SO_REUSEADDR, SO_TYPE, SO_ERROR and SO_REUSEPORT, of level SOL_SOCKET.
pattern ReuseAddress, SocketKind, PendingError, ReusePort, Listening :: Option
pattern ReuseAddress = Option 1 2
pattern SocketKind = Option 1 3
pattern PendingError = Option 1 4
pattern ReusePort = Option 1 15
pattern Listening = Option 1 30

-- | TCP_NODELAY and TCP_NOTSENT_LOWAT, of level IPPROTO_TCP.
pattern NoDelay, NotSentLowWater :: Option
pattern NoDelay = Option 6 1
pattern NotSentLowWater = Option 6 25

-- | IPV6_V6ONLY, of level IPPROTO_IPV6.
pattern Inet6Only :: Option
pattern Inet6Only = Option 41 26

-- Unsafe: MSG_DONTWAIT.
foreign import ccall unsafe "heddle_recv" c_recv :: CInt -> Ptr Word8 -> CSize -> IO CLong

-- Unsafe: MSG_DONTWAIT.
foreign import ccall unsafe "heddle_peek" c_peek :: CInt -> Ptr Word8 -> CSize -> IO CLong

-- Unsafe: MSG_DONTWAIT.
foreign import ccall unsafe "heddle_send" c_send :: CInt -> Ptr Word8 -> CSize -> CInt -> IO CLong

-- Unsafe: MSG_DONTWAIT.
foreign import ccall unsafe "heddle_writev" c_writev :: CInt -> Ptr Word8 -> CInt -> IO CLong

-- Unsafe: registered descriptors are non-blocking and pollable, so never disk files.
foreign import ccall unsafe "heddle_read" c_read :: CInt -> Ptr Word8 -> CSize -> IO CLong

-- Unsafe: registered descriptors are non-blocking and pollable, so never disk files.
foreign import ccall unsafe "heddle_write" c_write :: CInt -> Ptr Word8 -> CSize -> IO CLong

-- Unsafe: allocates in the kernel and returns.
foreign import ccall unsafe "heddle_socket" c_socket :: CInt -> CInt -> CInt -> IO CLong

foreign import ccall safe "heddle_bind" c_bind :: CInt -> Ptr a -> CInt -> IO CLong

-- Unsafe: changes the socket's state and returns.
foreign import ccall unsafe "heddle_listen" c_listen :: CInt -> CInt -> IO CLong

-- Unsafe: listeners are non-blocking.
foreign import ccall unsafe "heddle_accept" c_accept :: CInt -> Ptr a -> Ptr Int32 -> IO CLong

foreign import ccall safe "heddle_connect" c_connect :: CInt -> Ptr a -> CInt -> IO CLong

-- Unsafe: changes the socket's state and returns.
foreign import ccall unsafe "heddle_shutdown" c_shutdown :: CInt -> CInt -> IO CLong

-- Unsafe: no SO_LINGER, so closing leaves the rest to the kernel.
foreign import ccall unsafe "heddle_close" c_close :: CInt -> IO CLong

-- Unsafe: F_DUPFD takes the descriptor table's lock for a moment.
foreign import ccall unsafe "heddle_duplicate" c_duplicate :: CInt -> IO CLong

-- Unsafe: fcntl on flags only.
foreign import ccall unsafe "heddle_nonblock" c_nonblock :: CInt -> IO CLong

-- Unsafe: copies a name.
foreign import ccall unsafe "heddle_sockname" c_name :: CInt -> Ptr a -> Ptr Int32 -> CInt -> IO CLong

-- Unsafe: the options used here set a field and return.
foreign import ccall unsafe "heddle_set_option" c_set :: CInt -> CInt -> CInt -> CInt -> IO CLong

-- Unsafe: reads a field.
foreign import ccall unsafe "heddle_get_option" c_get :: CInt -> CInt -> CInt -> IO CLong
