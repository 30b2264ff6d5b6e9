-- |
-- Module      : Heddle.Serve.TicketSecret
-- Description : The secret of session tickets, for all processes of a server
-- Stability   : internal, exempt from the version policy
--
-- A client may resume its session with any worker. So workers make their tickets from one secret. It is random, and never on a disk
-- or in the environment: the supervisor keeps it in a memory file, whose descriptor its workers and its successor inherit. A server of
-- one process has none: its keys come from a secret that nobody keeps, so that old ones cannot be found any more.
--
-- Cost: a descriptor of the supervisor.
-- Owner: the supervisor closes the descriptor when it has ended its workers; a worker closes it at once.
module Heddle.Serve.TicketSecret
  ( TicketSecret,
    withTicketSecret,
    takeTicketBytes,
    ticketVariables,
    ticketDescriptors,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Foreign.C.Types (CChar, CInt (..))
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (Ptr)
import Heddle.Prim.Errno (checked)
import Heddle.Prim.Exception (bracket, trySync)
import System.Environment (lookupEnv, unsetEnv)
import System.Posix.IO (FdOption (CloseOnExec), closeFd, setFdOption)
import System.Posix.Types (Fd)
import Text.Read (readMaybe)

-- | Its descriptor.
newtype TicketSecret = TicketSecret Fd

-- | For a supervisor: the secret of the one whose place it takes, or a new one.
--
-- [Blocks]: as the body does.
-- [Throws]: 'IOError' when there are no descriptors.
withTicketSecret :: (TicketSecret -> IO a) -> IO a
withTicketSecret = bracket take' (\(TicketSecret fd) -> closeFd fd)
  where
    take' =
      inherited >>= \case
        Just (fd, _) -> TicketSecret fd <$ trySync (setFdOption fd CloseOnExec True)
        Nothing -> TicketSecret . fromIntegral <$> checked "memfd_create" (fromIntegral <$> c_secret (fromIntegral secretSize))

-- | For a worker: the supervisor's secret, which has 40 bytes.
--
-- [Blocks]: never.
takeTicketBytes :: IO (Maybe ByteString)
takeTicketBytes = inherited >>= traverse (\(fd, bytes) -> bytes <$ trySync (closeFd fd))

-- Once.
inherited :: IO (Maybe (Fd, ByteString))
inherited = do
  given <- (>>= readMaybe) <$> lookupEnv variable
  unsetEnv variable
  case given :: Maybe Int of
    Nothing -> pure Nothing
    Just number -> allocaBytes secretSize $ \p -> do
      n <- c_readSecret (fromIntegral number) p (fromIntegral secretSize)
      if fromIntegral n == secretSize then Just . (,) (fromIntegral number) <$> B.packCStringLen (p, secretSize) else pure Nothing

-- | Variables that a child needs.
ticketVariables :: TicketSecret -> [(String, String)]
ticketVariables (TicketSecret fd) = [(variable, show (fromIntegral fd :: Int))]

-- | Descriptors that a child must inherit.
ticketDescriptors :: TicketSecret -> [Fd]
ticketDescriptors (TicketSecret fd) = [fd]

secretSize :: Int
secretSize = 40

variable :: String
variable = "HEDDLE_TICKETS"

-- unsafe: writes to memory, which never sleeps; the kernel has long had its first random bytes when a server starts.
foreign import ccall unsafe "heddle_successor_secret" c_secret :: CInt -> IO CInt

-- unsafe: reads from memory, which never sleeps.
foreign import ccall unsafe "heddle_successor_read_secret" c_readSecret :: CInt -> Ptr CChar -> CInt -> IO CInt
