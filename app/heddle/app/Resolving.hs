-- |
-- Module      : Resolving
-- Description : Addresses of the OpenFlow commands
module Resolving
  ( resolveHost,
  )
where

import Heddle.Prim.Exception (IOException, describeException, toException, try)
import Heddle.Serve (ListenPlace (..))
import Network.Socket (AddrInfo (..), AddrInfoFlag (..), SockAddr (..), SocketType (..), defaultHints, getAddrInfo)

-- | The first socket address of a place; an empty host is every IPv4 address.
resolveHost :: ListenPlace -> IO (Either String SockAddr)
resolveHost = \case
  ListenUnix path -> pure (Right (SockAddrUnix path))
  ListenInherited _ -> pure (Left "sockets of systemd are for heddle serve; give an address such as 127.0.0.1:6653")
  ListenHost host port -> do
    found <- try (getAddrInfo (Just hints) (Just (if null host then "0.0.0.0" else host)) (Just (show port)))
    pure $ case found of
      Left (e :: IOException) -> Left ("cannot find the address of " ++ host ++ ": " ++ describeException (toException e) ++ ".\n  Is the name right? An address such as 127.0.0.1:6653 needs no look-up.")
      Right (info : _) -> Right (addrAddress info)
      Right [] -> Left (host ++ " has no address")
  where
    hints = defaultHints {addrSocketType = Stream, addrFlags = [AI_NUMERICSERV]}
