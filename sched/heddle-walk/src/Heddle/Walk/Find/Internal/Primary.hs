{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Primary
-- Description : The table of find's tests and actions
-- Stability   : internal, exempt from the version policy
--
-- A row for each primary: its name, and how its arguments are read
-- ("Heddle.Walk.Find.Internal.Argument"). A new primary is a row here, a constructor in
-- "Heddle.Walk.Find.Internal.Syntax", and what it does in "Heddle.Walk.Find.Internal.Compile".
--
-- Cost: once per run. Owner: the caller.
module Heddle.Walk.Find.Internal.Primary
  ( readPrimary,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Heddle.Walk.Find.Internal.Argument
import Heddle.Walk.Find.Internal.Outputs (openOutput)
import Heddle.Walk.Find.Internal.Pattern (Fold (..), newPattern)
import Heddle.Walk.Find.Internal.Settings
import Heddle.Walk.Find.Internal.Syntax
import Prelude hiding (Read)

-- | How a primary is read, given its name as written, for messages.
data Primary
  = -- | It takes no argument.
    Plain Expr
  | -- | It takes one word.
    OneWord (ByteString -> ByteString -> Read Expr)
  | -- | It says itself which of the following words are its arguments.
    Words (ByteString -> [ByteString] -> Read (Expr, [ByteString]))

-- | @readPrimary word bare rest@ reads a test or an action: its name as given and without
-- the minus sign, and what follows. 'Nothing': there is none of that name.
--
-- [Blocks]: holds an OS thread while files and accounts are looked up.
readPrimary :: ByteString -> ByteString -> [ByteString] -> Read (Maybe (Expr, [ByteString]))
readPrimary word bare rest
  | Bytes.length word == 8, Just letters <- Bytes.stripPrefix "newer" bare = Just <$> newerXY letters word rest
  | otherwise = traverse apply (lookup (Char8.unpack bare) primaries)
  where
    apply = \case
      Plain expr -> pure (expr, rest)
      OneWord use -> withArgument word rest (\text more -> (\expr -> (expr, more)) <$> use word text)
      Words use -> use word rest

primaries :: [(String, Primary)]
primaries = concat [constants, names, kinds, owners, times, places, printing, acting]

constants, names, kinds, owners, times, places, printing, acting :: [(String, Primary)]
constants =
  [ ("true", Plain (Constant True)),
    ("false", Plain (Constant False))
  ]
names =
  [ ("name", OneWord (namePattern CaseMatters "-wholename")),
    ("iname", OneWord (namePattern CaseFolds "-iwholename")),
    ("path", OneWord (pathPattern CaseMatters)),
    ("wholename", OneWord (pathPattern CaseMatters)),
    ("ipath", OneWord (pathPattern CaseFolds)),
    ("iwholename", OneWord (pathPattern CaseFolds)),
    ("lname", OneWord (linkPattern CaseMatters)),
    ("ilname", OneWord (linkPattern CaseFolds)),
    ("regex", OneWord (\_ -> regex False)),
    ("iregex", OneWord (\_ -> regex True))
  ]
  where
    linkPattern fold _ text = Test . LinkTarget <$> effect (newPattern fold text)
kinds =
  [ ("type", OneWord (fileTypes Type)),
    ("xtype", OneWord (fileTypes OtherType)),
    ("size", OneWord (const size)),
    ("links", OneWord (count Links)),
    ("inum", OneWord (count Inode)),
    ("empty", Plain (Test Empty)),
    ("samefile", OneWord (const sameFile)),
    ("fstype", OneWord (\_ -> pure . Test . OnFileSystem)),
    ("context", OneWord (\_ _ -> failWith ["invalid predicate -context: SELinux is not enabled."]))
  ]
owners =
  [ ("uid", OneWord (count UserNumber)),
    ("gid", OneWord (count GroupNumber)),
    ("user", OneWord (const user)),
    ("group", OneWord (const group)),
    ("nouser", Plain (Test NoUser)),
    ("nogroup", Plain (Test NoGroup)),
    ("perm", OneWord (const permissions)),
    ("executable", Plain (Test (Accessible Executable))),
    ("readable", Plain (Test (Accessible Readable))),
    ("writable", Plain (Test (Accessible Writable)))
  ]
times =
  [ ("mtime", OneWord (days Modified)),
    ("atime", OneWord (days Accessed)),
    ("ctime", OneWord (days Changed)),
    ("mmin", OneWord (minutes Modified)),
    ("amin", OneWord (minutes Accessed)),
    ("cmin", OneWord (minutes Changed)),
    ("used", OneWord (const used)),
    ("newer", OneWord (\_ -> newer Modified)),
    ("anewer", OneWord (\_ -> newer Accessed)),
    ("cnewer", OneWord (\_ -> newer Changed))
  ]
places =
  [ ("prune", Plain (Action PruneHere)),
    ("quit", Plain (Action QuitNow))
  ]
printing =
  [ ("print", Plain (Action (Print StandardOutput))),
    ("print0", Plain (Action (Print0 StandardOutput))),
    ("printf", OneWord (\_ -> fmap (Action . Printf StandardOutput) . format)),
    ("ls", Plain (Action (List' StandardOutput))),
    ("fprint", OneWord (\_ -> fmap (Action . Print) . openOutput)),
    ("fprint0", OneWord (\_ -> fmap (Action . Print0) . openOutput)),
    ("fls", OneWord (\_ -> fmap (Action . List') . openOutput)),
    ("fprintf", Words formatted)
  ]
acting =
  [ ("delete", Words (\_ rest -> (Action Delete, rest) <$ change (\s -> s {setDepthFirst = True}))),
    ("exec", Words (exec False False)),
    ("execdir", Words (exec True False)),
    ("ok", Words (exec False True)),
    ("okdir", Words (exec True True))
  ]
